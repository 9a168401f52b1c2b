// Transposes matrices of f16 in blocks of 4x4.
//
//   for each batch b, column c < 16 * panels and row r: the half at
//     dst + dst_offset + b * dst_batch + c * dst_row + (r / 16) * dst_panel + (r mod 16) * 2
//   is the half at
//     src + src_offset + b * src_batch + r * src_row + (c / 16) * src_panel + (c mod 16) * 2
//   for r < rows, and +0 for r from rows up to the next multiple of 16.
//
// Record: src, dst, batches, rows, panels, src_offset, dst_offset, src_row, src_panel, src_batch,
// dst_row, dst_panel, dst_batch: the first three at least 1, the rest in bytes, multiples of 8.
//
// The work is divided by strips of 4 columns and all rows, 4 * panels of them a batch, fewer than
// 98304 in all: n = 4 * batches * panels / 6, and one more for the first workers, one after another.
// A strip goes through whole panels of 16 rows first; what is left of the rows comes in a second
// walk over the strips.
//
// The first walk is a pipeline of blocks: while a block is loaded (4 loads) the one before it is
// stored (4 stores), in 8 bundles, one access each. Loads run on into the next strip; behind the last
// strip of a worker they go back to its start, so that nothing outside the matrix is read.
//
// One batch of at most 8 rows goes another way, for which the places of a worker take less to find
// out: it takes halves w, w + 6, w + 12, ... of panels, 2 strips each, so that every third panel
// follows and strides are constant. The stores of zeros fill the slots in which a block is on its way.
//
// Memory rules: none. Plain 64-bit loads and stores, so src and dst may lie anywhere, also in one
// element; they must not overlap.
//
// Bundles of a worker with n > 0 strips that begin in batch b and come to another panel q times, to
// another batch of these s times; w = rows / 16, f = rows mod 16 / 4, t = rows mod 4: 7 and
//   if w > 0: 69 + 4 * b + n * (4 + 32 * w) + 19 * q + 12 * s
//   if rows mod 16 > 0: 61 + 4 * b + n * (15 + 10 * f + tail + 4 * zeros) + 15 * q + 12 * s
// with tail = 0, 10, 13, 14 for t = 0 to 3, and the blocks of zeros, 4 - f - (t > 0).
// One batch of at most 8 rows, n halves: 48 + 40 * n, or 53 + 54 * n if there are more than 4 rows.

	.set WSR, 1
	.set WORKERS, 6

	.set ARG_SRC, 0
	.set ARG_DST, 1
	.set ARG_BATCHES, 2
	.set ARG_ROWS, 3
	.set ARG_PANELS, 4
	.set ARG_SRC_OFFSET, 5
	.set ARG_DST_OFFSET, 6
	.set ARG_SRC_ROW, 7
	.set ARG_SRC_PANEL, 8
	.set ARG_SRC_BATCH, 9
	.set ARG_DST_ROW, 10
	.set ARG_DST_PANEL, 11
	.set ARG_DST_BATCH, 12

	// Operands of f16v4istacc and f16v4stacc.
	.set P0, 0
	.set P1, 1

	.section .text.kernel, "ax"
	.globl kernel_entry
	.supervisor
	.p2align 3
kernel_entry:
	ld32 $m2, $m0, $mzero, ARG_BATCHES
	ld32 $m3, $m0, $mzero, ARG_ROWS
	setzi $m1, worker
	setzi $m4, few
	add $m2, $m2, -1
	add $m3, $m3, -9
	brnz $m2, strips
	brpos $m3, strips
	runall $m4, $m0, 0
	sync 2
	br $m10
strips:
	runall $m1, $m0, 0
	sync 2
	br $m10

	.worker

	.macro ARG register, number
	ld32 \register, $mvertex_base, $mzero, \number
	.endm

	// The strips of this worker, m6 of them, and its first one: m0 and m2 its places in src and dst,
	// m9 strips behind it in its panel, m10 panels behind that in its batch; and m1 src_row, m3
	// dst_row in bytes. Jumps to `none` if it has no strips.
	.macro FIRST_STRIP none
	get $m11, WSR
	and $m11, $m11, 7
	ARG $m0, ARG_BATCHES
	ARG $m10, ARG_PANELS
	shl $m1, $m10, 2
	mul $m0, $m0, $m1
	// m0 / 6, exact below 98304.
	setzi $m2, 43691
	mul $m2, $m0, $m2
	shr $m2, $m2, 18
	mul $m3, $m2, WORKERS
	sub $m3, $m0, $m3
	cmpult $m5, $m11, $m3
	add $m6, $m2, $m5
	brz $m6, \none
	mul $m4, $m11, $m2
	min $m5, $m11, $m3
	add $m4, $m4, $m5
	ARG $m0, ARG_SRC
	ARG $m5, ARG_SRC_OFFSET
	add $m0, $m0, $m5
	ARG $m2, ARG_DST
	ARG $m5, ARG_DST_OFFSET
	add $m2, $m2, $m5
	ARG $m7, ARG_SRC_BATCH
	ARG $m8, ARG_DST_BATCH
	sub $m4, $m4, $m1
	brneg $m4, 2f
1:
	add $m0, $m0, $m7
	add $m2, $m2, $m8
	sub $m4, $m4, $m1
	brpos $m4, 1b
2:
	// m4 strip in its batch.
	add $m4, $m4, $m1
	ARG $m1, ARG_SRC_ROW
	ARG $m3, ARG_DST_ROW
	mul $m5, $m4, $m3
	shl $m5, $m5, 2
	add $m2, $m2, $m5
	shr $m5, $m4, 2
	and $m4, $m4, 3
	shl $m7, $m4, 3
	add $m0, $m0, $m7
	sub $m9, 3, $m4
	ARG $m7, ARG_SRC_PANEL
	mul $m7, $m7, $m5
	add $m0, $m0, $m7
	sub $m10, $m10, $m5
	add $m10, $m10, -1
	.endm

	// From the last strip of a panel to the first one of the next panel: m8 more bytes in src and m5
	// in dst than from strip to strip. Sets m9 and m10.
	.macro NEXT_PANEL
	ARG $m8, ARG_SRC_PANEL
	add $m8, $m8, -32
	setzi $m5, 0
	brnzdec $m10, 1f
	// To the next batch: back over the panels of this one.
	ARG $m10, ARG_PANELS
	ARG $m9, ARG_SRC_PANEL
	mul $m9, $m9, $m10
	sub $m8, $m8, $m9
	ARG $m9, ARG_SRC_BATCH
	add $m8, $m8, $m9
	ARG $m5, ARG_DST_BATCH
	ARG $m9, ARG_DST_ROW
	mul $m9, $m9, $m10
	shl $m9, $m9, 4
	sub $m5, $m5, $m9
	add $m10, $m10, -1
1:
	setzi $m9, 3
	.endm

	// Stores the columns of a block and loads the rows of the next one; the last load moves m0 by
	// atoms in `load`, the last store m2 by atoms in `store`.
	.macro BLOCK load, store
	{ ld64step $a0:1, $mzero, $m0+=, $m1 ; f16v4stacc $a4:5, P0 }
	{ ld64step $a2:3, $mzero, $m0+=, $m1 ; f16v4stacc $a6:7, P1 }
	{ st64step $a4:5, $mzero, $m2+=, $m3 ; f16v4istacc $a4:5, $a0:1, $a2:3, P0 }
	{ ld64step $a0:1, $mzero, $m0+=, $m1 ; fnop }
	{ ld64step $a2:3, $mzero, $m0+=, \load ; fnop }
	{ st64step $a6:7, $mzero, $m2+=, $m3 ; f16v4istacc $a6:7, $a0:1, $a2:3, P1 }
	{ st64step $a4:5, $mzero, $m2+=, $m3 ; fnop }
	{ st64step $a6:7, $mzero, $m2+=, \store ; fnop }
	.endm
	// A panel of 16 rows: the loads are a block ahead.
	.macro PANEL load, store
	BLOCK $m1, $m4
	BLOCK $m1, $m4
	BLOCK \load, $m4
	BLOCK $m1, \store
	.endm

	// Whole panels of rows. m1 src_row, m3 dst_row, m4 from the last column to the next block and m5 to the
	// next panel, m7 from the last row and m11 from the last column to the next strip, all in
	// atoms; m6 strips left - 1, m8 panels of rows - 1.
	.p2align 3
worker:
	ARG $m8, ARG_ROWS
	shr $m8, $m8, 4
	brz $m8, rest
	FIRST_STRIP no_strips
	ARG $m8, ARG_ROWS
	shr $m8, $m8, 4
	add $m6, $m6, -1
	shr $m3, $m3, 3
	mul $m4, $m3, -3
	ARG $m5, ARG_DST_PANEL
	shr $m5, $m5, 3
	// To the next strip: 4 columns on, and back over the panels of rows.
	mul $m11, $m8, $m5
	sub $m11, $m5, $m11
	add $m11, $m11, $m3
	add $m11, $m11, -3
	add $m5, $m5, $m4
	add $m5, $m5, -3
	add $m4, $m4, 1
	shr $m1, $m1, 3
	shl $m7, $m8, 4
	mul $m7, $m7, $m1
	sub $m7, 1, $m7
	add $m7, $m7, $m1
	add $m8, $m8, -1
	ld64step $a0:1, $mzero, $m0+=, $m1
	ld64step $a2:3, $mzero, $m0+=, $m1
	f16v4istacc $azeros, $a0:1, $a2:3, P0
	ld64step $a0:1, $mzero, $m0+=, $m1
	ld64step $a2:3, $mzero, $m0+=, $m1
	f16v4istacc $azeros, $a0:1, $a2:3, P1
	.p2align 3
strip:
	{ rpt $m8, 31 ; fnop }
	PANEL $m1, $m5
	brz $m6, last_strip
	brnzdec $m9, same_panel
	NEXT_PANEL
	shrs $m8, $m8, 3
	shrs $m5, $m5, 3
	add $m7, $m7, $m8
	add $m11, $m11, $m5
	PANEL $m7, $m11
	sub $m7, $m7, $m8
	sub $m11, $m11, $m5
	ARG $m5, ARG_DST_PANEL
	shr $m5, $m5, 3
	add $m5, $m5, $m4
	add $m5, $m5, -4
	ARG $m8, ARG_ROWS
	shr $m8, $m8, 4
	add $m8, $m8, -1
	add $m6, $m6, -1
	bri strip
last_strip:
	// Back to the start of this strip.
	add $m7, $m7, -1
same_panel:
	PANEL $m7, $m11
	brnzdec $m6, strip

	// What is left of the rows: m5 blocks of 4 rows, m7 rows in the block behind them, m8 blocks of
	// zeros. m1, m3 and m4 as above.
rest:
	ARG $m8, ARG_ROWS
	and $m8, $m8, 15
	brz $m8, no_strips
	FIRST_STRIP no_strips
	add $m6, $m6, -1
	ARG $m7, ARG_ROWS
	shr $m5, $m7, 4
	ARG $m8, ARG_DST_PANEL
	mul $m8, $m8, $m5
	add $m2, $m2, $m8
	shl $m5, $m5, 4
	mul $m5, $m5, $m1
	add $m0, $m0, $m5
	shr $m1, $m1, 3
	shr $m3, $m3, 3
	mul $m4, $m3, -3
	add $m4, $m4, 1
counts:
	// f = rows mod 16 / 4; zero blocks are 4 - f, less one that begins with rows.
	ARG $m7, ARG_ROWS
	shr $m5, $m7, 2
	and $m5, $m5, 3
	and $m7, $m7, 3
	sub $m8, 4, $m5
	cmpult $m11, $mzero, $m7
	sub $m8, $m8, $m11
	.p2align 3
rest_strip:
	{ rpt $m5, 9 ; fnop }
	{ ld64step $a0:1, $mzero, $m0+=, $m1 ; fnop }
	{ ld64step $a2:3, $mzero, $m0+=, $m1 ; fnop }
	{ ld64step $a4:5, $mzero, $m0+=, $m1 ; f16v4istacc $azeros, $a0:1, $a2:3, P0 }
	{ ld64step $a6:7, $mzero, $m0+=, $m1 ; fnop }
	{ nop ; f16v4istacc $azeros, $a4:5, $a6:7, P1 }
	{ nop ; f16v4stacc $a0:1, P0 }
	{ st64step $a0:1, $mzero, $m2+=, $m3 ; f16v4stacc $a2:3, P1 }
	{ st64step $a2:3, $mzero, $m2+=, $m3 ; f16v4istacc $a4:5, $azeros, $azeros, P0 }
	{ st64step $a4:5, $mzero, $m2+=, $m3 ; f16v4istacc $a6:7, $azeros, $azeros, P1 }
	{ st64step $a6:7, $mzero, $m2+=, $m4 ; fnop }
	brz $m7, zeros
	{ ld64step $a0:1, $mzero, $m0+=, $m1 ; mov $a2:3, $azeros }
	{ add $m11, $m7, -1 ; mov $a4:5, $azeros }
	brz $m11, loaded
	ld64step $a2:3, $mzero, $m0+=, $m1
	add $m11, $m11, -1
	brz $m11, loaded
	ld64step $a4:5, $mzero, $m0+=, $m1
loaded:
	f16v4istacc $azeros, $a0:1, $a2:3, P0
	f16v4istacc $azeros, $a4:5, $azeros, P1
	f16v4stacc $a0:1, P0
	{ st64step $a0:1, $mzero, $m2+=, $m3 ; f16v4stacc $a2:3, P1 }
	{ st64step $a2:3, $mzero, $m2+=, $m3 ; f16v4istacc $a4:5, $azeros, $azeros, P0 }
	{ st64step $a4:5, $mzero, $m2+=, $m3 ; f16v4istacc $a6:7, $azeros, $azeros, P1 }
	st64step $a6:7, $mzero, $m2+=, $m4
	.p2align 3
zeros:
	{ rpt $m8, 3 ; fnop }
	{ st64step $azeros, $mzero, $m2+=, $m3 ; fnop }
	{ st64step $azeros, $mzero, $m2+=, $m3 ; fnop }
	{ st64step $azeros, $mzero, $m2+=, $m3 ; fnop }
	{ st64step $azeros, $mzero, $m2+=, $m4 ; fnop }
	// To the next strip: back over the rows and 4 columns on.
	ARG $m11, ARG_ROWS
	and $m11, $m11, 15
	mul $m11, $m11, $m1
	shl $m11, $m11, 3
	sub $m0, $m0, $m11
	add $m0, $m0, 8
	shl $m11, $m3, 5
	add $m2, $m2, $m11
	add $m2, $m2, -32
	brz $m6, no_strips
	brnzdec $m9, same_rest
	NEXT_PANEL
	add $m0, $m0, $m8
	add $m2, $m2, $m5
	add $m6, $m6, -1
	bri counts
same_rest:
	brnzdec $m6, rest_strip
	exitz $mzero

	// One batch of at most 8 rows. Registers:
	//   m0  src                          m1  src_row in atoms
	//   m2  dst, first block of rows     m11 dst, last block of rows
	//   m3, m4, m5  from the first row of the last block to the others, in bytes: where there is
	//               no row, again to the last one
	//   m6  halves
	//   m7, m8  from the last block of a strip to the next strip and to the next half, in atoms
	//   m9, m10 from a column to the next one and from the last of a half to the next half, in atoms
	//   a6:7    marks of the rows of the last block
few:
	get $m11, WSR
	and $m11, $m11, 7
	ARG $m6, ARG_PANELS
	shl $m6, $m6, 1
	add $m6, $m6, WORKERS - 1
	sub $m6, $m6, $m11
	// m6 / 6, exact below 98304.
	setzi $m2, 43691
	mul $m6, $m6, $m2
	shr $m6, $m6, 18
	brz $m6, no_strips
	// Half w is half w mod 2 of panel w / 2.
	ARG $m0, ARG_SRC
	ARG $m3, ARG_SRC_OFFSET
	add $m0, $m0, $m3
	ARG $m8, ARG_SRC_PANEL
	shr $m3, $m11, 1
	mul $m3, $m3, $m8
	add $m0, $m0, $m3
	and $m3, $m11, 1
	shl $m3, $m3, 4
	add $m0, $m0, $m3
	mul $m8, $m8, 3
	shr $m8, $m8, 3
	add $m8, $m8, -1
	ARG $m2, ARG_DST
	ARG $m3, ARG_DST_OFFSET
	add $m2, $m2, $m3
	ARG $m9, ARG_DST_ROW
	mul $m3, $m9, $m11
	shl $m3, $m3, 3
	add $m2, $m2, $m3
	shr $m9, $m9, 3
	mul $m10, $m9, 41
	ARG $m7, ARG_ROWS
	ARG $m1, ARG_SRC_ROW
	add $m7, $m7, -1
	and $m5, $m7, 3
	shl $m3, $m5, 3
	setzi $m4, marks
	ld64 $a6:7, $m4, $m3, 0
	min $m3, $m5, 1
	mul $m3, $m3, $m1
	min $m4, $m5, 2
	mul $m4, $m4, $m1
	mul $m5, $m5, $m1
	shr $m7, $m7, 2
	brnz $m7, two_blocks

	// The rows of the last block: the marks are put on its columns, since a row that is not there is
	// read as another one. `load` and, below, `store`: the steps behind the last row and column.
	.macro LOAD_LAST load
	{ ld64 $a0:1, $mzero, $m0, 0 ; fnop }
	{ ld64 $a2:3, $m3, $m0, 0 ; fnop }
	{ ld64 $a0:1, $m4, $m0, 0 ; f16v4istacc $azeros, $a0:1, $a2:3, P0 }
	{ ld64step $a2:3, $m5, $m0+=, \load ; fnop }
	.endm
	.macro STRIP_4 load, store
	LOAD_LAST \load
	{ st64 $azeros, $m2, $mzero, 1 ; f16v4istacc $azeros, $a0:1, $a2:3, P1 }
	{ st64 $azeros, $m2, $mzero, 2 ; f16v4stacc $a0:1, P0 }
	{ st64 $azeros, $m2, $mzero, 3 ; and64 $a0:1, $a0:1, $a6:7 }
	{ st64step $a0:1, $mzero, $m2+=, $m9 ; f16v4stacc $a2:3, P1 }
	{ st64 $azeros, $m2, $mzero, 1 ; and64 $a2:3, $a2:3, $a6:7 }
	{ st64 $azeros, $m2, $mzero, 2 ; f16v4istacc $a4:5, $azeros, $azeros, P0 }
	{ st64 $azeros, $m2, $mzero, 3 ; and64 $a4:5, $a4:5, $a6:7 }
	{ st64step $a2:3, $mzero, $m2+=, $m9 ; f16v4istacc $a0:1, $azeros, $azeros, P1 }
	{ st64 $azeros, $m2, $mzero, 1 ; and64 $a0:1, $a0:1, $a6:7 }
	{ st64 $azeros, $m2, $mzero, 2 ; fnop }
	{ st64 $azeros, $m2, $mzero, 3 ; fnop }
	{ st64step $a4:5, $mzero, $m2+=, $m9 ; fnop }
	{ st64 $azeros, $m2, $mzero, 1 ; fnop }
	{ st64 $azeros, $m2, $mzero, 2 ; fnop }
	{ st64 $azeros, $m2, $mzero, 3 ; fnop }
	{ st64step $a0:1, $mzero, $m2+=, \store ; fnop }
	.endm
	.p2align 3
	{ rpt $m6, 39 ; fnop }
	STRIP_4 1, $m9
	STRIP_4 $m8, $m10
	exitz $mzero

two_blocks:
	shr $m1, $m1, 3
	shl $m7, $m1, 2
	sub $m8, $m8, $m7
	sub $m7, 1, $m7
	add $m11, $m2, 8
	.macro STRIP_8 load, store
	{ ld64step $a0:1, $mzero, $m0+=, $m1 ; fnop }
	{ ld64step $a2:3, $mzero, $m0+=, $m1 ; fnop }
	{ ld64step $a0:1, $mzero, $m0+=, $m1 ; f16v4istacc $azeros, $a0:1, $a2:3, P0 }
	{ ld64step $a2:3, $mzero, $m0+=, $m1 ; fnop }
	{ nop ; f16v4istacc $azeros, $a0:1, $a2:3, P1 }
	{ nop ; f16v4stacc $a0:1, P0 }
	{ st64step $a0:1, $mzero, $m2+=, $m9 ; f16v4stacc $a2:3, P1 }
	{ st64step $a2:3, $mzero, $m2+=, $m9 ; f16v4istacc $a4:5, $azeros, $azeros, P0 }
	{ st64step $a4:5, $mzero, $m2+=, $m9 ; f16v4istacc $a0:1, $azeros, $azeros, P1 }
	{ st64step $a0:1, $mzero, $m2+=, \store ; fnop }
	LOAD_LAST \load
	{ st64 $azeros, $m11, $mzero, 1 ; f16v4istacc $azeros, $a0:1, $a2:3, P1 }
	{ st64 $azeros, $m11, $mzero, 2 ; f16v4stacc $a0:1, P0 }
	{ nop ; and64 $a0:1, $a0:1, $a6:7 }
	{ st64step $a0:1, $mzero, $m11+=, $m9 ; f16v4stacc $a2:3, P1 }
	{ st64 $azeros, $m11, $mzero, 1 ; and64 $a2:3, $a2:3, $a6:7 }
	{ st64 $azeros, $m11, $mzero, 2 ; f16v4istacc $a4:5, $azeros, $azeros, P0 }
	{ st64step $a2:3, $mzero, $m11+=, $m9 ; and64 $a4:5, $a4:5, $a6:7 }
	{ st64 $azeros, $m11, $mzero, 1 ; f16v4istacc $a0:1, $azeros, $azeros, P1 }
	{ st64 $azeros, $m11, $mzero, 2 ; and64 $a0:1, $a0:1, $a6:7 }
	{ st64step $a4:5, $mzero, $m11+=, $m9 ; fnop }
	{ st64 $azeros, $m11, $mzero, 1 ; fnop }
	{ st64 $azeros, $m11, $mzero, 2 ; fnop }
	{ st64step $a0:1, $mzero, $m11+=, \store ; fnop }
	.endm
	.p2align 3
	{ rpt $m6, 53 ; fnop }
	STRIP_8 $m7, $m9
	STRIP_8 $m8, $m10
no_strips:
	exitz $mzero

	.p2align 3
marks:
	.long 0x0000ffff, 0x00000000
	.long 0xffffffff, 0x00000000
	.long 0xffffffff, 0x0000ffff
	.long 0xffffffff, 0xffffffff
