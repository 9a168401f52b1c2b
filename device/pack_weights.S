// The right operands of products of f32, from panels to the order that the AMP takes them in
// (weights16): for each matrix of a batch groups of 16 columns, in each the blocks of 16 of K, in each
// twice 16 columns of 8 of K.
//
// Define TURNED: 0 rows of src are the columns of the product, its columns K;
//                1 rows of src are K, as in x * w.
//
// Record: src, dst, batches, groups, blocks, rows, src_panel, src_batch. groups and blocks: those of
// dst, so groups of 16 rows of src and its panels, or its panels and groups of 16 rows. src is
// panels of 64 bytes a row; src_panel and src_batch are bytes from panel to panel and from matrix
// to matrix. Rows of the last group of 16 beyond `rows` become zeros; columns beyond those of
// src are as in its last panel, so zeros where its padding is.
//
// A unit is the 1024 bytes of dst of a group and block. Units are numbered in the order of dst;
// worker w takes units w, w + 6 and so on. A line is the units of a group.
//
// Memory rules: none; one access an instruction. Nothing is read beyond the end.
//
// Bundles: a unit takes the same time whatever it holds: rows of zeros are as slow as others.
// See kernels.ron.

	.set WSR, 1

	.set ARG_SRC, 0
	.set ARG_DST, 1
	.set ARG_BATCHES, 2
	.set ARG_GROUPS, 3
	.set ARG_BLOCKS, 4
	.set ARG_ROWS, 5
	.set ARG_SRC_PANEL, 6
	.set ARG_SRC_BATCH, 7

	.section .text.kernel, "ax"
	.globl kernel_entry
	.supervisor
	.p2align 3
kernel_entry:
	setzi $m1, worker
	runall $m1, $m0, 0
	sync 2
	br $m10

// m0 src of the line, m1 dst of the unit, m2 bytes of src from a line to the next, m3 those from
// a block to the next, m4 rows left of the matrix in the line (TURNED = 0), m5 block of the unit,
// m6 lines left, m7 lines left of the matrix, m8 blocks, m9, m10, m11 temporary
	.worker
	.p2align 3
worker:
	{ get $m5, WSR ; fnop }
	{ and $m5, $m5, 7 ; fnop }
	{ ld32 $m0, $mvertex_base, $mzero, ARG_SRC ; fnop }
	{ ld32 $m1, $mvertex_base, $mzero, ARG_DST ; fnop }
	{ shl $m9, $m5, 10 ; fnop }
	{ add $m1, $m1, $m9 ; fnop }
	{ ld32 $m4, $mvertex_base, $mzero, ARG_ROWS ; fnop }
	{ ld32 $m7, $mvertex_base, $mzero, ARG_GROUPS ; fnop }
	{ ld32 $m6, $mvertex_base, $mzero, ARG_BATCHES ; fnop }
	{ mul $m6, $m6, $m7 ; fnop }
	{ ld32 $m8, $mvertex_base, $mzero, ARG_BLOCKS ; fnop }
	.if TURNED
	{ ld32 $m2, $mvertex_base, $mzero, ARG_SRC_PANEL ; fnop }
	{ setzi $m3, 1024 ; fnop }
	.else
	{ setzi $m2, 1024 ; fnop }
	{ ld32 $m3, $mvertex_base, $mzero, ARG_SRC_PANEL ; fnop }
	.endif
unit:
	{ sub $m9, $m5, $m8 ; fnop }
	{ brneg $m9, inside ; fnop }
	// The unit belongs to a later line.
	{ add $m6, $m6, -1 ; fnop }
	{ brz $m6, done ; fnop }
	{ add $m5, $m9, 0 ; fnop }
	{ add $m0, $m0, $m2 ; fnop }
	{ add $m4, $m4, -16 + 16 * TURNED ; fnop }
	{ add $m7, $m7, -1 ; fnop }
	{ brnz $m7, unit ; fnop }
	// And to the next matrix.
	{ ld32 $m7, $mvertex_base, $mzero, ARG_GROUPS ; fnop }
	{ ld32 $m4, $mvertex_base, $mzero, ARG_ROWS ; fnop }
	{ mul $m9, $m7, $m2 ; fnop }
	{ sub $m0, $m0, $m9 ; fnop }
	{ ld32 $m9, $mvertex_base, $mzero, ARG_SRC_BATCH ; fnop }
	{ add $m0, $m0, $m9 ; fnop }
	{ bri unit ; fnop }
inside:
	// m9 src of the unit, m10 its rows, m11 rows of zeros.
	{ mul $m9, $m5, $m3 ; fnop }
	{ add $m9, $m9, $m0 ; fnop }
	.if TURNED
	{ shl $m10, $m5, 4 ; fnop }
	{ sub $m10, $m4, $m10 ; fnop }
	{ min $m10, $m10, 16 ; fnop }
	.else
	{ nop ; fnop }
	{ nop ; fnop }
	{ min $m10, $m4, 16 ; fnop }
	.endif
	.if TURNED
	// Row r is element r mod 8 of 16 columns in one half or the other.
	.macro ROW
	{ ld32step $a0, $mzero, $m9+=, 1 ; fnop }
	{ st32 $a0, $m1, $mzero, 0 ; fnop }
	ELEMENT 1
	ELEMENT 2
	ELEMENT 3
	ELEMENT 4
	ELEMENT 5
	ELEMENT 6
	ELEMENT 7
	ELEMENT 8
	ELEMENT 9
	ELEMENT 10
	ELEMENT 11
	ELEMENT 12
	ELEMENT 13
	ELEMENT 14
	ELEMENT 15
	{ add $m1, $m1, 4 ; fnop }
	.endm
	.macro ELEMENT c
	{ ld32step $a0, $mzero, $m9+=, 1 ; fnop }
	{ st32 $a0, $m1, $mzero, 8 * \c ; fnop }
	.endm
	.macro ZERO_ROW
	{ nop ; fnop }
	{ st32 $azero, $m1, $mzero, 0 ; fnop }
	ZERO 1
	ZERO 2
	ZERO 3
	ZERO 4
	ZERO 5
	ZERO 6
	ZERO 7
	ZERO 8
	ZERO 9
	ZERO 10
	ZERO 11
	ZERO 12
	ZERO 13
	ZERO 14
	ZERO 15
	{ add $m1, $m1, 4 ; fnop }
	.endm
	.macro ZERO c
	{ nop ; fnop }
	{ st32 $azero, $m1, $mzero, 8 * \c ; fnop }
	.endm
	// The first half, then the second.
	.macro HALF
	{ min $m11, $m10, 8 ; fnop }
	{ sub $m10, $m10, $m11 ; fnop }
	{ rpt $m11, 32 ; fnop }
	ROW
	{ sub $m11, $mzero, $m11 ; fnop }
	{ add $m11, $m11, 8 ; fnop }
	{ rpt $m11, 32 ; fnop }
	ZERO_ROW
	.endm
	HALF
	{ add $m1, $m1, 480 ; fnop }
	HALF
	{ add $m1, $m1, 480 ; fnop }
	.else
	// A row is 8 of K of a column in both halves.
	{ add $m11, $m1, 512 ; fnop }
	{ rpt $m10, 15 ; fnop }
	.macro ROW_ATOM to
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; fnop }
	{ st64step $a0:1, $mzero, \to+=, 1 ; fnop }
	.endm
	ROW_ATOM $m1
	ROW_ATOM $m1
	ROW_ATOM $m1
	ROW_ATOM $m1
	ROW_ATOM $m11
	ROW_ATOM $m11
	ROW_ATOM $m11
	ROW_ATOM $m11
	{ sub $m10, $mzero, $m10 ; fnop }
	{ add $m10, $m10, 16 ; fnop }
	{ rpt $m10, 15 ; fnop }
	.macro ZERO_ATOM to
	{ nop ; fnop }
	{ st64step $azeros, $mzero, \to+=, 1 ; fnop }
	.endm
	ZERO_ATOM $m1
	ZERO_ATOM $m1
	ZERO_ATOM $m1
	ZERO_ATOM $m1
	ZERO_ATOM $m11
	ZERO_ATOM $m11
	ZERO_ATOM $m11
	ZERO_ATOM $m11
	{ add $m1, $m1, 512 ; fnop }
	.endif
	// Six units further.
	{ setzi $m9, 5120 ; fnop }
	{ add $m1, $m1, $m9 ; fnop }
	{ add $m5, $m5, 6 ; fnop }
	{ bri unit ; fnop }
done:
	exitz $mzero
