// Clears the last columns of a panel: columns first to 15 of every row.
//
//   for each row r: elements first .. 15 of the 32 bytes (f32: 64) at out + offset + r * out_row
//   become +0
//
// Define F32: 1 elements are f32, 0 f16 (the default).
//
// Record: out, rows_each, rows_extra, first (1 to 15), offset (bytes to the panel), out_row (bytes
// from a row to the next); both multiples of 8. Worker w takes rows_each + (w < rows_extra) rows
// from w * rows_each + min(w, rows_extra) on.
//
// The atom of 8 bytes that column `first` is in keeps its columns before it by a mask; the atoms
// behind it are stored as zeros. There is one loop for each place of that atom.
//
// Memory rules: none. One 64-bit load or store an instruction; nothing outside the panel is read.
//
// Bundles of a worker with r rows: 28 + r * (3 + max(0, k - 1)), k = 3 - first / 4 whole atoms, of
// f32 k = 7 - first / 2.

	.ifndef F32
	.set F32, 0
	.endif

	.set WSR, 1

	.set ARG_OUT, 0
	.set ARG_ROWS_EACH, 1
	.set ARG_ROWS_EXTRA, 2
	.set ARG_FIRST, 3
	.set ARG_OFFSET, 4
	.set ARG_OUT_ROW, 5

	.section .text.kernel, "ax"
	.globl kernel_entry
	.supervisor
	.p2align 3
kernel_entry:
	setzi $m1, worker
	runall $m1, $m0, 0
	sync 2
	br $m10

// What is kept of an atom, by the number of columns kept.
	.p2align 3
masks:
	.word 0, 0
	.if F32 == 0
	.word 0x0000ffff, 0
	.endif
	.word 0xffffffff, 0
	.if F32 == 0
	.word 0xffffffff, 0x0000ffff
	.endif

// m1 the atom of column `first` in the first row, m2 atoms from a row to the next, m3 bytes to the
// row, m4 rows, a2:3 mask.
	.worker
	.p2align 3
worker:
	get $m0, WSR
	and $m0, $m0, 7
	ld32 $m4, $mvertex_base, $mzero, ARG_ROWS_EACH
	ld32 $m5, $mvertex_base, $mzero, ARG_ROWS_EXTRA
	mul $m3, $m0, $m4
	min $m6, $m0, $m5
	add $m3, $m3, $m6
	cmpult $m6, $m0, $m5
	add $m4, $m4, $m6
	ld32 $m1, $mvertex_base, $mzero, ARG_OUT
	ld32 $m6, $mvertex_base, $mzero, ARG_OFFSET
	add $m1, $m1, $m6
	ld32 $m2, $mvertex_base, $mzero, ARG_OUT_ROW
	mul $m3, $m3, $m2
	shr $m2, $m2, 3
	ld32 $m5, $mvertex_base, $mzero, ARG_FIRST
	shr $m6, $m5, 2 - F32
	shl $m7, $m6, 3
	add $m1, $m1, $m7
	and $m5, $m5, 3 - 2 * F32
	setzi $m7, masks
	ld64 $a2:3, $m7, $mzero, $m5
	setzi $m7, loops
	shl $m6, $m6, LOOP_LOG2
	add $m7, $m7, $m6
	br $m7

	// Loops of equal size, by the place of the first atom: whole atoms behind it.
	.set LOOP_LOG2, 6 + F32
	.macro LOOP whole
	.p2align LOOP_LOG2
	.if \whole > 1
	{ rpt $m4, 1 + \whole ; fnop }
	.else
	{ rpt $m4, 2 ; fnop }
	.endif
	{ ld64 $a0:1, $m1, $m3, 0 ; fnop }
	.if \whole == 0
	{ nop ; and64 $a0:1, $a0:1, $a2:3 }
	.else
	{ st64 $azeros, $m1, $m3, 1 ; and64 $a0:1, $a0:1, $a2:3 }
	.endif
	.if \whole > 1
	{ st64 $azeros, $m1, $m3, 2 ; fnop }
	.endif
	.if \whole > 2
	{ st64 $azeros, $m1, $m3, 3 ; fnop }
	.endif
	.if \whole > 3
	{ st64 $azeros, $m1, $m3, 4 ; fnop }
	.endif
	.if \whole > 4
	{ st64 $azeros, $m1, $m3, 5 ; fnop }
	.endif
	.if \whole > 5
	{ st64 $azeros, $m1, $m3, 6 ; fnop }
	.endif
	.if \whole > 6
	{ st64 $azeros, $m1, $m3, 7 ; fnop }
	.endif
	{ st64step $a0:1, $m1, $m3+=, $m2 ; fnop }
	exitz $mzero
	.endm
	.p2align LOOP_LOG2
loops:
	.if F32
	LOOP 7
	LOOP 6
	LOOP 5
	LOOP 4
	.endif
	LOOP 3
	LOOP 2
	LOOP 1
	LOOP 0
