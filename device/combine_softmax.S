// Rows of the product of softmax with values from parts of the keys: what softmax_partial_f16 leaves
// of each part and its product with the values of that part,
//   out = sum over p of o[p] * w[p] / sum over p of l[p] * w[p],  w[p] = exp2(s - s[p]),
// s[p] the shift of part p (minus its largest scaled score, in units of log2), s the smallest.
//
// Record: partials, weights, out, rows_each, rows_extra, panels, parts >= 1, part_stride,
//         partial_panel, out_panel
//   partials  interleaved memory: part p at p * part_stride bytes, a multiple of 16; in it panels of
//             16 columns of o, partial_panel bytes apart, 32 bytes a row, and behind them one more
//             whose rows begin with l and the shift in f32
//   weights   scratch, 24 bytes a part
//   out       panels of 16 columns, out_panel bytes apart, 32 bytes a row
//
// Worker w takes rows_each + (w < rows_extra) rows from w * rows_each + min(w, rows_extra) on.
//
// A row: the smallest shift; exp2 and the sum in f32; the quotients narrowed to f16; then for each
// half of a panel the products in f16 and their sum over the parts in f32 from +0 on, narrowed once.
//
// Memory rules: none but the class of partials. One access an instruction. Nothing is read beyond
// the end.
//
// Bundles of a worker with r rows: r (19 + 11 parts + panels (27 + 6 parts)) and a constant, see
// kernels.ron. Rows are not shared: fewer than six rows leave workers idle.

	.set WSR, 1
	.set FP_CLR, 1

	.set ARG_PARTIALS, 0
	.set ARG_WEIGHTS, 1
	.set ARG_OUT, 2
	.set ARG_ROWS_EACH, 3
	.set ARG_ROWS_EXTRA, 4
	.set ARG_PANELS, 5
	.set ARG_PARTS, 6
	.set ARG_PART_STRIDE, 7
	.set ARG_PARTIAL_PANEL, 8
	.set ARG_OUT_PANEL, 9

	.section .text.kernel, "ax"
	.globl kernel_entry
	.supervisor
	.p2align 3
kernel_entry:
	setzi $m1, worker
	runall $m1, $m0, 0
	sync 2
	br $m10

// Registers of a worker:
//   m0  partials, current row    m1  out, current row
//   m2  part stride in 16 bytes  m7  part stride in 8 bytes
//   m3  weights of this worker   m4  parts - 1
//   m5  statistics of the row, then out   m6  panels left - 1   m8  rows left - 1
//   m9  panel of the row         m10, m11  temporary, pointers
	.worker
	.p2align 3
worker:
	{ get $m8, WSR ; setzi $a0, 8 }
	{ and $m8, $m8, 7 ; uput FP_CLR, $a0 }
	{ ld32 $m9, $mvertex_base, $mzero, ARG_ROWS_EACH ; fnop }
	{ ld32 $m10, $mvertex_base, $mzero, ARG_ROWS_EXTRA ; fnop }
	{ mul $m2, $m8, $m9 ; fnop }
	{ min $m11, $m8, $m10 ; fnop }
	{ add $m2, $m2, $m11 ; fnop }
	{ cmpult $m11, $m8, $m10 ; fnop }
	{ add $m11, $m9, $m11 ; fnop }
	{ brz $m11, no_rows ; fnop }
	{ shl $m2, $m2, 5 ; fnop }
	{ ld32 $m0, $mvertex_base, $mzero, ARG_PARTIALS ; fnop }
	{ add $m0, $m0, $m2 ; fnop }
	{ ld32 $m1, $mvertex_base, $mzero, ARG_OUT ; fnop }
	{ add $m1, $m1, $m2 ; fnop }
	{ ld32 $m4, $mvertex_base, $mzero, ARG_PARTS ; fnop }
	{ mul $m9, $m8, $m4 ; fnop }
	{ shl $m9, $m9, 2 ; fnop }
	{ ld32 $m3, $mvertex_base, $mzero, ARG_WEIGHTS ; fnop }
	{ add $m3, $m3, $m9 ; fnop }
	{ add $m4, $m4, -1 ; fnop }
	{ ld32 $m2, $mvertex_base, $mzero, ARG_PART_STRIDE ; fnop }
	{ shr $m7, $m2, 3 ; fnop }
	{ shr $m2, $m2, 4 ; fnop }
	{ add $m8, $m11, -1 ; fnop }

row:
	// -> a6 = the smallest shift.
	{ ld32 $m6, $mvertex_base, $mzero, ARG_PANELS ; fnop }
	{ ld32 $m10, $mvertex_base, $mzero, ARG_PARTIAL_PANEL ; fnop }
	{ mul $m5, $m6, $m10 ; fnop }
	{ add $m5, $m5, $m0 ; fnop }
	{ add $m9, $m5, 0 ; fnop }
	{ ld64step $a0:1, $mzero, $m9+=, $m7 ; fnop }
	{ add $m10, $m3, 0 ; mov $a6, $a1 }
	{ rpt $m4, 0 ; fnop }
	{ ld64step $a0:1, $mzero, $m9+=, $m7 ; f32min $a6, $a6, $a1 }
	{ add $m6, $m6, -1 ; f32min $a6, $a6, $a1 }
	// -> a7 = sum of l * w; w in the weights.
	{ ld64step $a0:1, $mzero, $m5+=, $m7 ; setzi $a7, 0 }
	{ rpt $m4, 3 ; fnop }
	{ nop ; f32sub $a2, $a6, $a1 }
	{ nop ; f32exp2 $a2, $a2 }
	{ st32step $a2, $mzero, $m10+=, 1 ; f32mul $a3, $a0, $a2 }
	{ ld64step $a0:1, $mzero, $m5+=, $m7 ; f32add $a7, $a7, $a3 }
	{ nop ; f32sub $a2, $a6, $a1 }
	{ nop ; f32exp2 $a2, $a2 }
	{ st32step $a2, $mzero, $m10+=, 1 ; f32mul $a3, $a0, $a2 }
	{ add $m10, $m3, 0 ; f32add $a7, $a7, $a3 }
	// Weights to quotients.
	{ add $m11, $m4, 1 ; f32oox $a7, $a7 }
	{ rpt $m11, 3 ; fnop }
	{ ld32 $a0, $m10, $mzero, 0 ; fnop }
	{ nop ; f32mul $a0, $a0, $a7 }
	{ nop ; f32tof16 $a0, $a0 }
	{ st32step $a0, $mzero, $m10+=, 1 ; fnop }

	// Half a panel from `offset` bytes behind m9 on is summed; its first part is in a0:3 and that of
	// the half `next` bytes behind m9 will be.
	.macro HALF next
	{ ld32step $a4, $mzero, $m11+=, 1 ; fnop }
	{ rpt $m4, 2 ; fnop }
	{ nop ; f16v4mul $a0:1, $a4:BL, $a0:1 }
	{ ld32step $a4, $mzero, $m11+=, 1 ; f16v4mul $a2:3, $a4:BL, $a2:3 }
	{ ld128step $a0:3, $mzero, $m10+=, $m2 ; f16v8acc $a0:3 }
	{ add $m11, $m3, 0 ; f16v4mul $a0:1, $a4:BL, $a0:1 }
	{ add $m10, $m9, \next ; f16v4mul $a2:3, $a4:BL, $a2:3 }
	{ nop ; f16v8acc $a0:3 }
	.endm
	.macro NARROW load
	{ nop ; f32v2gina $a4:5, $azeros, 0 }
	{ nop ; f32v2gina $a6:7, $azeros, 0 }
	{ \load ; f32v4tof16 $a4:5, $a4:7 }
	{ st64step $a4:5, $mzero, $m5+=, 1 ; f32v2gina $a4:5, $azeros, 0 }
	{ nop ; f32v2gina $a6:7, $azeros, 0 }
	{ nop ; f32v4tof16 $a4:5, $a4:7 }
	.endm

	{ add $m9, $m0, 0 ; fnop }
	{ add $m5, $m1, 0 ; fnop }
panel:
	{ add $m10, $m9, 0 ; fnop }
	{ add $m11, $m3, 0 ; fnop }
	{ ld128step $a0:3, $mzero, $m10+=, $m2 ; fnop }
	HALF 16
	NARROW "ld128step $a0:3, $mzero, $m10+=, $m2"
	{ st64step $a4:5, $mzero, $m5+=, 1 ; fnop }
	HALF 0
	NARROW nop
	{ st64step $a4:5, $mzero, $m5+=, 1 ; fnop }
	{ ld32 $m10, $mvertex_base, $mzero, ARG_PARTIAL_PANEL ; fnop }
	{ ld32 $m11, $mvertex_base, $mzero, ARG_OUT_PANEL ; fnop }
	{ add $m9, $m9, $m10 ; fnop }
	{ add $m5, $m5, $m11 ; fnop }
	{ add $m5, $m5, -32 ; fnop }
	brnzdec $m6, panel
	{ add $m0, $m0, 32 ; fnop }
	{ add $m1, $m1, 32 ; fnop }
	brnzdec $m8, row
no_rows:
	exitz $mzero
