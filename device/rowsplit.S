// Norms of rows of f16 for few rows: all six workers share each row. The meaning is that of
// rowwise.S, where a row has one worker, but for the order of additions.
//
// Define KIND: 1 layer norm, 2 RMS norm.
//
// Records (x_row and so on: bytes from a row to the next, from a panel of 16 columns to the next):
//   layer norm  x, scale, bias, scratch, out, rows, columns, x_row, x_panel, out_row, out_panel,
//               epsilon, inverse (1 / columns), both f32
//   RMS norm    x, scale, scratch, out, and the words of layer norm
// columns >= 1; strides are multiples of 8, scale and bias contiguous and padded to panels.
// scratch is 64 bytes: a sum of each worker, a sum of squares of each, minus the mean.
//
// Worker w takes halves w, w + 6, w + 12, ... of panels: 8 columns, 2 atoms. So it is always the
// same half of a panel, from every third panel, and strides are constant. A worker without halves
// exits. Launches for a row: layer norm sums, squares of deviations, result; RMS norm squares,
// result. What workers find out for each other goes through scratch, and places and counts stay in
// their m registers from launch to launch.
//
// Order of additions. A worker adds its halves one after another: for sums to four lanes, of each
// half the second atom before the first, for squares to eight lanes. Then lanes as in rowwise.S:
// even and odd lanes, then both. Sums of the workers: ((0, 2), 4) and ((1, 3), 5), then both.
//
// Padding of x is never taken for data, whatever it holds. Padding of out is (normalised padding) *
// scale + bias, so 0 where scale and bias are 0 and x is no NaN.
//
// Memory rules: none; one access an instruction, out may be x. Nothing is read beyond the end.
//
// Errors, NaN and infinities: as in rowwise.S.
//
// Slots of a worker with n halves in each launch of a row:
//   layer norm  42 + 2 n, 22 + 3 n, 27 + 8 n; a row after the first 19 + 2 n in the first launch
//   RMS norm    46 + 2 n, 22 + 6 n; a row after the first 23 + 2 n in the first launch
// Rows follow each other: from three rows of 144 columns on, workers with a row each are faster.

	.set WSR, 1
	.set FP_CLR, 1
	.set TAS, 8

	.set LAYER, 1
	.set RMS, 2

	.set ARG_X, 0
	.set ARG_SCALE, 1
	.if KIND == LAYER
	.set ARG_BIAS, 2
	.set ARG_SCRATCH, 3
	.else
	.set ARG_SCRATCH, 2
	.endif
	.set ARG_OUT, ARG_SCRATCH + 1
	.set ARG_ROWS, ARG_SCRATCH + 2
	.set ARG_COLUMNS, ARG_SCRATCH + 3
	.set ARG_X_ROW, ARG_SCRATCH + 4
	.set ARG_X_PANEL, ARG_SCRATCH + 5
	.set ARG_OUT_ROW, ARG_SCRATCH + 6
	.set ARG_OUT_PANEL, ARG_SCRATCH + 7
	.set ARG_EPSILON, ARG_SCRATCH + 8
	.set ARG_INVERSE, ARG_SCRATCH + 9

	// Scratch: in words, and in atoms.
	.set SUMS, 0
	.set SQUARES, 6
	.set MEAN, 12

	.section .text.kernel, "ax"
	.globl kernel_entry
	.supervisor
	.p2align 3
kernel_entry:
	ld32 $m2, $m0, $mzero, ARG_ROWS
	setzi $m3, start
	.if KIND == LAYER
	setzi $m4, squares
	.endif
	setzi $m5, result
	brz $m2, no_rows
row:
	runall $m3, $m0, 0
	add $m2, $m2, -1
	setzi $m3, next_row
	sync 2
	.if KIND == LAYER
	runall $m4, $m0, 0
	sync 2
	.endif
	runall $m5, $m0, 0
	sync 2
	brnz $m2, row
no_rows:
	br $m10

// Registers of a worker:
//   m0  its place in the current row of x    m1  start of the row of out
//   m4  atoms from a half of x to the next   m6  halves - 1, negative if there are none
//   m7  from masks to those of its last half m8  number of the worker
//   others temporary
	.worker

	// -> a0 = the sum over all lanes; clears them.
	.macro SUM_8
	{ nop ; f32v2gina $a0:1, $azeros, 0 }
	{ nop ; f32v2gina $a2:3, $azeros, 0 }
	{ nop ; f32v2add $a0:1, $a0:1, $a2:3 }
	{ nop ; f32v2gina $a2:3, $azeros, 0 }
	{ nop ; f32v2gina $a4:5, $azeros, 0 }
	{ nop ; f32v2add $a2:3, $a2:3, $a4:5 }
	{ nop ; f32v2add $a0:1, $a0:1, $a2:3 }
	{ nop ; f32add $a0, $a0, $a1 }
	.endm

	.p2align 3
start:
	{ get $m8, WSR ; setzi $a7, 8 }
	{ and $m8, $m8, 7 ; uput FP_CLR, $a7 }
	// m6 = (halves of the row - 1 - w) / 6, exact below 98304.
	{ ld32 $m10, $mvertex_base, $mzero, ARG_COLUMNS ; fnop }
	{ add $m6, $m10, -1 ; fnop }
	{ shr $m6, $m6, 3 ; fnop }
	{ or $m6, $m6, 1 ; fnop }
	{ sub $m6, $m6, $m8 ; fnop }
	{ brneg $m6, idle ; fnop }
	{ setzi $m11, 43691 ; fnop }
	{ mul $m6, $m6, $m11 ; fnop }
	{ shr $m6, $m6, 18 ; fnop }
	// m7: columns of the last half, of which there are more if it is not the last of the row, or
	// none.
	{ mul $m11, $m6, 48 ; fnop }
	{ sub $m10, $m10, $m11 ; fnop }
	{ shl $m11, $m8, 3 ; fnop }
	{ sub $m10, $m10, $m11 ; fnop }
	{ max $m10, $m10, 0 ; fnop }
	{ min $m10, $m10, 8 ; fnop }
	{ shl $m7, $m10, 4 ; fnop }
	// Half w is half w mod 2 of panel w / 2.
	{ ld32 $m4, $mvertex_base, $mzero, ARG_X_PANEL ; fnop }
	{ shr $m9, $m8, 1 ; fnop }
	{ mul $m9, $m9, $m4 ; fnop }
	{ ld32 $m0, $mvertex_base, $mzero, ARG_X ; fnop }
	{ add $m0, $m0, $m9 ; fnop }
	{ and $m9, $m8, 1 ; fnop }
	{ shl $m9, $m9, 4 ; fnop }
	{ add $m0, $m0, $m9 ; fnop }
	{ mul $m4, $m4, 3 ; fnop }
	{ shr $m4, $m4, 3 ; fnop }
	{ ld32 $m1, $mvertex_base, $mzero, ARG_OUT ; fnop }
first_pass:
	{ setzi $m10, 0 ; fnop }
	{ setzi $m11, masks ; fnop }
	{ ld64 $a0:1, $m0, $m10, 1 ; fnop }
	.if KIND == LAYER
	{ rpt $m6, 1 ; fnop }
	{ ld64step $a0:1, $m0, $m10+=, $m4 ; f16v4acc $a0:1 }
	{ ld64 $a0:1, $m0, $m10, 1 ; f16v4acc $a0:1 }
	{ ld64 $a2:3, $m11, $m7, 1 ; fnop }
	{ ld64 $a4:5, $m0, $m10, 0 ; andc64 $a0:1, $a0:1, $a2:3 }
	{ ld64 $a2:3, $m11, $m7, 0 ; f16v4acc $a0:1 }
	{ ld32 $m9, $mvertex_base, $mzero, ARG_SCRATCH ; andc64 $a4:5, $a4:5, $a2:3 }
	{ shl $m10, $m8, 2 ; f16v4acc $a4:5 }
	{ nop ; f32v2gina $a0:1, $azeros, 0 }
	{ nop ; f32v2gina $a2:3, $azeros, 0 }
	{ nop ; f32v2add $a0:1, $a0:1, $a2:3 }
	{ nop ; f32add $a0, $a0, $a1 }
	{ st32 $a0, $m9, $m10, SUMS ; fnop }
	.else
	{ rpt $m6, 1 ; fnop }
	{ ld64step $a2:3, $m0, $m10+=, $m4 ; fnop }
	{ ld64 $a0:1, $m0, $m10, 1 ; f16v8sqacc $a0:3 }
	{ ld64 $a2:3, $m0, $m10, 0 ; fnop }
	{ ld64 $a6:7, $m11, $m7, 1 ; fnop }
	{ ld64 $a6:7, $m11, $m7, 0 ; andc64 $a0:1, $a0:1, $a6:7 }
	{ ld32 $m9, $mvertex_base, $mzero, ARG_SCRATCH ; andc64 $a2:3, $a2:3, $a6:7 }
	{ shl $m10, $m8, 2 ; f16v8sqacc $a0:3 }
	SUM_8
	{ st32 $a0, $m9, $m10, SQUARES ; fnop }
	.endif
	exitz $mzero

	.p2align 3
next_row:
	{ brneg $m6, no_halves ; setzi $a7, 8 }
	{ ld32 $m9, $mvertex_base, $mzero, ARG_X_ROW ; uput FP_CLR, $a7 }
	{ add $m0, $m0, $m9 ; fnop }
	{ ld32 $m9, $mvertex_base, $mzero, ARG_OUT_ROW ; fnop }
	{ add $m1, $m1, $m9 ; fnop }
	bri first_pass

	// A worker without halves leaves its sums 0, once for all rows.
idle:
	ld32 $m9, $mvertex_base, $mzero, ARG_SCRATCH
	shl $m10, $m8, 2
	.if KIND == LAYER
	st32 $azero, $m9, $m10, SUMS
	.endif
	st32 $azero, $m9, $m10, SQUARES
no_halves:
	exitz $mzero

	.if KIND == LAYER
	.p2align 3
squares:
	{ brneg $m6, no_halves ; setzi $a7, 8 }
	{ ld32 $m9, $mvertex_base, $mzero, ARG_SCRATCH ; uput FP_CLR, $a7 }
	// -> a4 = -mean, a5 = the same in f16.
	{ ld64 $a0:1, $m9, $mzero, SUMS / 2 ; fnop }
	{ ld64 $a2:3, $m9, $mzero, SUMS / 2 + 1 ; f32v2sub $a0:1, $azeros, $a0:1 }
	{ ld64 $a4:5, $m9, $mzero, SUMS / 2 + 2 ; f32v2sub $a0:1, $a0:1, $a2:3 }
	{ ld32 $a6, $mvertex_base, $mzero, ARG_INVERSE ; f32v2sub $a0:1, $a0:1, $a4:5 }
	{ setzi $m10, 0 ; f32add $a0, $a0, $a1 }
	{ setzi $m11, masks ; f32mul $a4, $a0, $a6 }
	{ ld64 $a0:1, $m0, $m10, 1 ; f32tof16 $a5, $a4 }
	{ rpt $m6, 2 ; fnop }
	{ ld64step $a2:3, $m0, $m10+=, $m4 ; f16v4add $a0:1, $a5:BL, $a0:1 }
	{ nop ; f16v4add $a2:3, $a5:BL, $a2:3 }
	{ ld64 $a0:1, $m0, $m10, 1 ; f16v8sqacc $a0:3 }
	{ ld64 $a2:3, $m0, $m10, 0 ; f16v4add $a0:1, $a5:BL, $a0:1 }
	{ ld64 $a6:7, $m11, $m7, 1 ; f16v4add $a2:3, $a5:BL, $a2:3 }
	{ ld64 $a6:7, $m11, $m7, 0 ; andc64 $a0:1, $a0:1, $a6:7 }
	// All workers have the same mean.
	{ st32 $a4, $m9, $mzero, MEAN ; andc64 $a2:3, $a2:3, $a6:7 }
	{ shl $m10, $m8, 2 ; f16v8sqacc $a0:3 }
	SUM_8
	{ st32 $a0, $m9, $m10, SQUARES ; fnop }
	exitz $mzero

	.p2align 3
result:
	{ brneg $m6, no_halves ; fnop }
	{ ld32 $m9, $mvertex_base, $mzero, ARG_SCRATCH ; fnop }
	{ ld32 $a6, $m9, $mzero, MEAN ; fnop }
	{ ld64 $a0:1, $m9, $mzero, SQUARES / 2 ; f32tof16 $a5, $a6 }
	{ ld64 $a2:3, $m9, $mzero, SQUARES / 2 + 1 ; f16tof32 $a5, $a5 }
	{ ld64 $a2:3, $m9, $mzero, SQUARES / 2 + 2 ; f32v2add $a0:1, $a0:1, $a2:3 }
	{ ld32 $a4, $mvertex_base, $mzero, ARG_INVERSE ; f32v2add $a0:1, $a0:1, $a2:3 }
	{ ld32 $a3, $mvertex_base, $mzero, ARG_EPSILON ; f32add $a0, $a0, $a1 }
	// -> a0 = 1 / deviation. The deviations were from a5: its distance from the mean goes off.
	{ ld32 $a7, $m9, $mzero, MEAN ; f32sub $a5, $a5, $a6 }
	{ shr $m10, $m8, 1 ; f32mul $a5, $a5, $a5 }
	{ ld32 $m5, $mvertex_base, $mzero, ARG_OUT_PANEL ; f32mul $a0, $a0, $a4 }
	{ mul $m10, $m10, $m5 ; f32sub $a0, $a0, $a5 }
	{ mul $m5, $m5, 3 ; f32max $a0, $a0, $azero }
	{ shr $m5, $m5, 3 ; f32add $a0, $a0, $a3 }
	{ and $m11, $m8, 1 ; f32oorx $a0, $a0 }
	// -> a4:7 = -mean / deviation, TAS = 1 / deviation as two f16 factors.
	{ shl $m11, $m11, 4 ; f32tof16 $a1, $a0 }
	{ add $m10, $m10, $m11 ; f16tof32 $a1, $a1 }
	{ shl $m11, $m8, 4 ; f32sub $a1, $a0, $a1 }
	{ ld32 $m2, $mvertex_base, $mzero, ARG_SCALE ; f32v2mul $a4:5, $a0:B, $a6:7 }
	{ ld32 $m3, $mvertex_base, $mzero, ARG_BIAS ; f32v2mul $a6:7, $a0:B, $a6:7 }
	{ setzi $m9, 0 ; f32v2tof16 $a0, $a0:1 }
	// The normalised atom comes out of the mix of the next one. m9 and m10 count bytes of x and
	// out, m11 those of scale and bias.
	{ ld64 $a0:1, $m0, $m9, 1 ; uput TAS, $a0 }
	{ ld64step $a0:1, $m0, $m9+=, $m4 ; f16v4mix $a2:3, $a0:1, $a0:1 }
	{ nop ; f32v4acc $a4:7 }
	{ nop ; f16v4mix $a2:3, $a0:1, $a0:1 }
	{ rpt $m6, 7 ; fnop }
	{ ld64 $a0:1, $m2, $m11, 1 ; f32v4acc $a4:7 }
	{ ld64 $a0:1, $m3, $m11, 1 ; f16v4mul $a2:3, $a2:3, $a0:1 }
	{ ld64 $a0:1, $m0, $m9, 1 ; f16v4add $a2:3, $a2:3, $a0:1 }
	{ st64 $a2:3, $m1, $m10, 1 ; f16v4mix $a2:3, $a0:1, $a0:1 }
	{ ld64 $a0:1, $m2, $m11, 0 ; f32v4acc $a4:7 }
	{ ld64step $a0:1, $m3, $m11+=, 12 ; f16v4mul $a2:3, $a2:3, $a0:1 }
	{ ld64step $a0:1, $m0, $m9+=, $m4 ; f16v4add $a2:3, $a2:3, $a0:1 }
	{ st64step $a2:3, $m1, $m10+=, $m5 ; f16v4mix $a2:3, $a0:1, $a0:1 }
	{ ld64 $a0:1, $m2, $m11, 1 ; f32v4acc $a4:7 }
	{ ld64 $a0:1, $m3, $m11, 1 ; f16v4mul $a2:3, $a2:3, $a0:1 }
	{ nop ; f16v4add $a2:3, $a2:3, $a0:1 }
	{ st64 $a2:3, $m1, $m10, 1 ; f16v4mix $a2:3, $a0:1, $a0:1 }
	{ ld64 $a0:1, $m2, $m11, 0 ; fnop }
	{ ld64 $a0:1, $m3, $m11, 0 ; f16v4mul $a2:3, $a2:3, $a0:1 }
	{ nop ; f16v4add $a2:3, $a2:3, $a0:1 }
	{ st64 $a2:3, $m1, $m10, 0 ; fnop }
	exitz $mzero

	.else
	.p2align 3
result:
	{ brneg $m6, no_halves ; fnop }
	{ ld32 $m9, $mvertex_base, $mzero, ARG_SCRATCH ; fnop }
	{ ld64 $a0:1, $m9, $mzero, SQUARES / 2 ; fnop }
	{ ld64 $a2:3, $m9, $mzero, SQUARES / 2 + 1 ; fnop }
	{ ld64 $a2:3, $m9, $mzero, SQUARES / 2 + 2 ; f32v2add $a0:1, $a0:1, $a2:3 }
	{ ld32 $a4, $mvertex_base, $mzero, ARG_INVERSE ; f32v2add $a0:1, $a0:1, $a2:3 }
	{ ld32 $a3, $mvertex_base, $mzero, ARG_EPSILON ; f32add $a0, $a0, $a1 }
	{ ld32 $m5, $mvertex_base, $mzero, ARG_OUT_PANEL ; f32mul $a0, $a0, $a4 }
	{ shr $m10, $m8, 1 ; f32add $a0, $a0, $a3 }
	{ mul $m10, $m10, $m5 ; f32oorx $a0, $a0 }
	// -> TAS = 1 / root mean square as two f16 factors.
	{ mul $m5, $m5, 3 ; f32tof16 $a1, $a0 }
	{ shr $m5, $m5, 3 ; f16tof32 $a1, $a1 }
	{ and $m11, $m8, 1 ; f32sub $a1, $a0, $a1 }
	{ shl $m11, $m11, 4 ; f32v2tof16 $a0, $a0:1 }
	{ add $m10, $m10, $m11 ; fnop }
	{ setzi $m9, 0 ; fnop }
	// The normalised atom comes out of the mix of the next one. m9 and m10 count bytes of x and
	// out, m11 those of scale.
	{ ld64 $a4:5, $m0, $m9, 1 ; uput TAS, $a0 }
	{ ld64step $a4:5, $m0, $m9+=, $m4 ; f16v4mix $a2:3, $a4:5, $a4:5 }
	{ ld32 $m2, $mvertex_base, $mzero, ARG_SCALE ; f16v4mix $a2:3, $a4:5, $a4:5 }
	{ shl $m11, $m8, 4 ; fnop }
	{ rpt $m6, 5 ; fnop }
	{ ld64 $a0:1, $m2, $m11, 1 ; fnop }
	{ ld64 $a4:5, $m0, $m9, 1 ; f16v4mul $a2:3, $a2:3, $a0:1 }
	{ st64 $a2:3, $m1, $m10, 1 ; f16v4mix $a2:3, $a4:5, $a4:5 }
	{ ld64step $a0:1, $m2, $m11+=, 12 ; fnop }
	{ ld64step $a4:5, $m0, $m9+=, $m4 ; f16v4mul $a2:3, $a2:3, $a0:1 }
	{ st64step $a2:3, $m1, $m10+=, $m5 ; f16v4mix $a2:3, $a4:5, $a4:5 }
	{ ld64 $a0:1, $m2, $m11, 1 ; fnop }
	{ nop ; f16v4mul $a2:3, $a2:3, $a0:1 }
	{ st64 $a2:3, $m1, $m10, 1 ; f16v4mix $a2:3, $a4:5, $a4:5 }
	{ ld64 $a0:1, $m2, $m11, 0 ; fnop }
	{ nop ; f16v4mul $a2:3, $a2:3, $a0:1 }
	{ st64 $a2:3, $m1, $m10, 0 ; fnop }
	exitz $mzero
	.endif

	// Marks of the padding in the two atoms of a half with 0 to 8 columns.
	.p2align 3
masks:
	.long 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff
	.long 0xffff0000, 0xffffffff, 0xffffffff, 0xffffffff
	.long 0x00000000, 0xffffffff, 0xffffffff, 0xffffffff
	.long 0x00000000, 0xffff0000, 0xffffffff, 0xffffffff
	.long 0x00000000, 0x00000000, 0xffffffff, 0xffffffff
	.long 0x00000000, 0x00000000, 0xffff0000, 0xffffffff
	.long 0x00000000, 0x00000000, 0x00000000, 0xffffffff
	.long 0x00000000, 0x00000000, 0x00000000, 0xffff0000
	.long 0x00000000, 0x00000000, 0x00000000, 0x00000000
