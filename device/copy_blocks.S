// Copies blocks of 32 bytes between strided places: packs rows into panels and back.
//
//   for each panel p and row r: 32 bytes from src + src_offset + p * src_panel + r * src_row
//                               to dst + dst_offset + p * dst_panel + r * dst_row
//
// Record: src, dst, rows_each, rows_extra, panels >= 1, src_offset, dst_offset, src_row, src_panel,
// dst_row, dst_panel (bytes, multiples of 8). Worker w takes rows_each + (w < rows_extra) rows from
// w * rows_each + min(w, rows_extra) on, of every panel. If there are fewer than six rows, and twice
// as many panels or more, the panels are divided in the same way, and it takes every row of its
// panels; fewer than 98304 panels.
//
// Memory rules: none. Plain 64-bit loads and stores, one an instruction, so src and dst may lie
// anywhere, also in one element; they must not overlap. Nothing is read beyond the end.
//
// Bundles of a worker with r rows of every panel: 33 + panels * (4 + 8r), and with p panels of every
// row: 38 + rows * (4 + 8p).

	.set WSR, 1
	.set WORKERS, 6

	.set ARG_SRC, 0
	.set ARG_DST, 1
	.set ARG_ROWS_EACH, 2
	.set ARG_ROWS_EXTRA, 3
	.set ARG_PANELS, 4
	.set ARG_SRC_OFFSET, 5
	.set ARG_DST_OFFSET, 6
	.set ARG_SRC_ROW, 7
	.set ARG_SRC_PANEL, 8
	.set ARG_DST_ROW, 9
	.set ARG_DST_PANEL, 10

	.section .text.kernel, "ax"
	.globl kernel_entry
	.supervisor
	.p2align 3
kernel_entry:
	ld32 $m1, $m0, $mzero, ARG_ROWS_EACH
	ld32 $m2, $m0, $mzero, ARG_ROWS_EXTRA
	ld32 $m3, $m0, $mzero, ARG_PANELS
	setzi $m4, divide_rows
	setzi $m5, divide_panels
	brnz $m1, many_rows
	brz $m2, many_rows
	sub $m3, $m3, $m2
	sub $m3, $m3, $m2
	brneg $m3, many_rows
	runall $m5, $m0, 0
	sync 2
	br $m10
many_rows:
	runall $m4, $m0, 0
	sync 2
	br $m10

// Lines are what a worker has a part of, rows or panels; the others are crossed. m0 lines, m1 crossed
// ones left - 1, m2 src and m3 dst of the crossed one, m4 and m5 bytes into them, m6 and m7 atoms
// from the last atom of a line to the next line, m8 and m9 bytes from the end of the lines to the
// next crossed one.
	.worker
	.p2align 3
divide_rows:
	get $m4, WSR
	and $m4, $m4, 7
	ld32 $m0, $mvertex_base, $mzero, ARG_ROWS_EACH
	ld32 $m1, $mvertex_base, $mzero, ARG_ROWS_EXTRA
	mul $m5, $m4, $m0
	min $m6, $m4, $m1
	add $m5, $m5, $m6
	cmpult $m6, $m4, $m1
	add $m0, $m0, $m6
	brz $m0, no_rows
	ld32 $m1, $mvertex_base, $mzero, ARG_PANELS
	ld32 $m6, $mvertex_base, $mzero, ARG_SRC_ROW
	ld32 $m7, $mvertex_base, $mzero, ARG_DST_ROW
	ld32 $m8, $mvertex_base, $mzero, ARG_SRC_PANEL
	ld32 $m9, $mvertex_base, $mzero, ARG_DST_PANEL
places:
	add $m1, $m1, -1
	ld32 $m2, $mvertex_base, $mzero, ARG_SRC
	ld32 $m3, $mvertex_base, $mzero, ARG_DST
	ld32 $m10, $mvertex_base, $mzero, ARG_SRC_OFFSET
	ld32 $m11, $mvertex_base, $mzero, ARG_DST_OFFSET
	add $m2, $m2, $m10
	add $m3, $m3, $m11
	// The offset of a line is also that of the worker's first line: the base never moves by it.
	mul $m4, $m5, $m6
	mul $m5, $m5, $m7
	mul $m10, $m0, $m6
	sub $m8, $m8, $m10
	mul $m10, $m0, $m7
	sub $m9, $m9, $m10
	shr $m6, $m6, 3
	add $m6, $m6, -3
	shr $m7, $m7, 3
	add $m7, $m7, -3
	.p2align 3
crossed:
	{ rpt $m0, 7 ; fnop }
	{ ld64step $a0:1, $m2, $m4+=, 1 ; fnop }
	{ ld64step $a2:3, $m2, $m4+=, 1 ; fnop }
	{ ld64step $a4:5, $m2, $m4+=, 1 ; fnop }
	{ ld64step $a6:7, $m2, $m4+=, $m6 ; fnop }
	{ st64step $a0:1, $m3, $m5+=, 1 ; fnop }
	{ st64step $a2:3, $m3, $m5+=, 1 ; fnop }
	{ st64step $a4:5, $m3, $m5+=, 1 ; fnop }
	{ st64step $a6:7, $m3, $m5+=, $m7 ; fnop }
	add $m4, $m4, $m8
	add $m5, $m5, $m9
	brnzdec $m1, crossed
no_rows:
	exitz $mzero

	.p2align 3
divide_panels:
	get $m4, WSR
	and $m4, $m4, 7
	ld32 $m5, $mvertex_base, $mzero, ARG_PANELS
	// m0 = m5 / 6, exact below 98304; m6 the rest.
	setzi $m6, 43691
	mul $m0, $m5, $m6
	shr $m0, $m0, 18
	mul $m6, $m0, WORKERS
	sub $m6, $m5, $m6
	mul $m5, $m4, $m0
	min $m7, $m4, $m6
	add $m5, $m5, $m7
	cmpult $m7, $m4, $m6
	add $m0, $m0, $m7
	brz $m0, no_rows
	ld32 $m1, $mvertex_base, $mzero, ARG_ROWS_EXTRA
	ld32 $m6, $mvertex_base, $mzero, ARG_SRC_PANEL
	ld32 $m7, $mvertex_base, $mzero, ARG_DST_PANEL
	ld32 $m8, $mvertex_base, $mzero, ARG_SRC_ROW
	ld32 $m9, $mvertex_base, $mzero, ARG_DST_ROW
	bri places
