// out = a op b on f16, where b is one row that every row of a meets.
//
// Define OP: 0 a + b, 1 a - b, 2 a * b, 3 max, 4 min, 5 a / b (in f32, narrowed). NaN and rounding as
// the f16v4 instruction has them.
//
// Record: a, b, out, rows_each, rows_extra, panels, a_row, a_panel, out_row, out_panel: bytes from a
// row to the next, from a panel of 16 columns to the next; multiples of 8, b contiguous. Worker w
// takes rows_each + (w < rows_extra) rows from w * rows_each + min(w, rows_extra) on.
//
// Padding is data like any other. Memory rules: none. One access an instruction; out may be a.
// Nothing is read beyond the end.
//
// Slots of a worker with r rows of p panels, bound by loads and stores, division by the float unit:
// 28 + r (7 + 12 p), division 28 + r (7 + 76 p).

	.set WSR, 1
	.set DIV, 5

	.set ARG_A, 0
	.set ARG_B, 1
	.set ARG_OUT, 2
	.set ARG_ROWS_EACH, 3
	.set ARG_ROWS_EXTRA, 4
	.set ARG_PANELS, 5
	.set ARG_A_ROW, 6
	.set ARG_A_PANEL, 7
	.set ARG_OUT_ROW, 8
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

// m0 a, m1 out, m2 b; m3 panels; m4, m5 atoms from the last of a panel of a and out to the first of
// the next; m6, m7 row strides; m8 rows - 1; m9, m10, m11 pointers to a, b, out.
	.worker
	.p2align 3
worker:
	{ get $m0, WSR ; fnop }
	{ and $m0, $m0, 7 ; fnop }
	{ ld32 $m8, $mvertex_base, $mzero, ARG_ROWS_EACH ; fnop }
	{ ld32 $m2, $mvertex_base, $mzero, ARG_ROWS_EXTRA ; fnop }
	{ mul $m3, $m0, $m8 ; fnop }
	{ min $m4, $m0, $m2 ; fnop }
	{ add $m3, $m3, $m4 ; fnop }
	{ cmpult $m4, $m0, $m2 ; fnop }
	{ add $m8, $m8, $m4 ; fnop }
	{ brz $m8, no_rows ; fnop }
	{ ld32 $m6, $mvertex_base, $mzero, ARG_A_ROW ; fnop }
	{ ld32 $m7, $mvertex_base, $mzero, ARG_OUT_ROW ; fnop }
	{ ld32 $m0, $mvertex_base, $mzero, ARG_A ; fnop }
	{ mul $m4, $m3, $m6 ; fnop }
	{ add $m0, $m0, $m4 ; fnop }
	{ ld32 $m1, $mvertex_base, $mzero, ARG_OUT ; fnop }
	{ mul $m4, $m3, $m7 ; fnop }
	{ add $m1, $m1, $m4 ; fnop }
	{ ld32 $m4, $mvertex_base, $mzero, ARG_A_PANEL ; fnop }
	{ shr $m4, $m4, 3 ; fnop }
	{ add $m4, $m4, -3 ; fnop }
	{ ld32 $m5, $mvertex_base, $mzero, ARG_OUT_PANEL ; fnop }
	{ shr $m5, $m5, 3 ; fnop }
	{ add $m5, $m5, -3 ; fnop }
	{ ld32 $m2, $mvertex_base, $mzero, ARG_B ; fnop }
	{ ld32 $m3, $mvertex_base, $mzero, ARG_PANELS ; fnop }
	{ add $m8, $m8, -1 ; fnop }

	.macro PANEL op
	{ rpt $m3, 11 ; fnop }
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; fnop }
	{ ld64step $a2:3, $mzero, $m10+=, 1 ; fnop }
	{ ld64step $a4:5, $mzero, $m9+=, 1 ; \op $a0:1, $a0:1, $a2:3 }
	{ ld64step $a6:7, $mzero, $m10+=, 1 ; fnop }
	{ st64step $a0:1, $mzero, $m11+=, 1 ; \op $a4:5, $a4:5, $a6:7 }
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; fnop }
	{ ld64step $a2:3, $mzero, $m10+=, 1 ; fnop }
	{ st64step $a4:5, $mzero, $m11+=, 1 ; \op $a0:1, $a0:1, $a2:3 }
	{ ld64step $a4:5, $mzero, $m9+=, $m4 ; fnop }
	{ ld64step $a6:7, $mzero, $m10+=, 1 ; fnop }
	{ st64step $a0:1, $mzero, $m11+=, 1 ; \op $a4:5, $a4:5, $a6:7 }
	{ st64step $a4:5, $mzero, $m11+=, $m5 ; fnop }
	.endm

	.macro DIVIDE load, store
	{ ld64step $a0:1, $mzero, $m9+=, \load ; fnop }
	{ ld64step $a2:3, $mzero, $m10+=, 1 ; f16v2tof32 $a4:5, $a0 }
	{ nop ; f16v2tof32 $a6:7, $a2 }
	{ nop ; f32div $a4, $a4, $a6 }
	{ nop ; f32div $a5, $a5, $a7 }
	{ nop ; f16v2tof32 $a6:7, $a3 }
	{ nop ; f16v2tof32 $a2:3, $a1 }
	{ nop ; f32div $a6, $a2, $a6 }
	{ nop ; f32div $a7, $a3, $a7 }
	{ nop ; f32v4tof16 $a4:5, $a4:7 }
	{ st64step $a4:5, $mzero, $m11+=, \store ; fnop }
	.endm

row:
	{ add $m9, $m0, 0 ; fnop }
	{ add $m10, $m2, 0 ; fnop }
	{ add $m11, $m1, 0 ; fnop }
	.if OP == 0
	PANEL f16v4add
	.endif
	.if OP == 1
	PANEL f16v4sub
	.endif
	.if OP == 2
	PANEL f16v4mul
	.endif
	.if OP == 3
	PANEL f16v4max
	.endif
	.if OP == 4
	PANEL f16v4min
	.endif
	.if OP == DIV
	{ rpt $m3, 43 ; fnop }
	DIVIDE 1, 1
	DIVIDE 1, 1
	DIVIDE 1, 1
	DIVIDE $m4, $m5
	.endif
	{ add $m0, $m0, $m6 ; fnop }
	{ add $m1, $m1, $m7 ; fnop }
	brnzdec $m8, row
no_rows:
	exitz $mzero
