// out[g][c] = the sum times a factor, or the largest, over r of x[g][r][c], for groups g of rows.
// Sums are f32.
//
// Defines: MAX 1 the largest, 0 the sum; F32 1 out is f32, 0 f16 (the maximum of f16 is f16);
//          IN_F32 1 x and out are f32 (F32 is 0), 0 x is f16 (the default).
//
// Record: x, out, groups, rows, panels, x_row, x_panel, x_group, out_row, out_panel, factor (f32,
// unused by the maximum): bytes from a row to the next and so on, multiples of 8; out_row from a
// group's result to the next. groups, rows, panels >= 1.
//
// A unit is an atom of 4 columns of one group, of f32 2. Worker w takes units w, w + 6 and so on, of
// all groups * panels * 4, of f32 * 8. Padding of x is data like any other and gives the padding of out. f16
// infinities give NaN sums; the maximum ignores NaN.
//
// Memory rules: none; one access an instruction, out may be x if the types are the same. Nothing is
// read beyond the end.
//
// Slots of a worker with u units, bound by loads: 11 + u (rows + 20) + 8 groups, maximum 17 instead of
// 20, F32 21; IN_F32 17 and, for the maximum, 17.

	.ifndef IN_F32
	.set IN_F32, 0
	.endif

	.set WSR, 1
	.set FP_CLR, 1

	.set ARG_X, 0
	.set ARG_OUT, 1
	.set ARG_GROUPS, 2
	.set ARG_ROWS, 3
	.set ARG_PANELS, 4
	.set ARG_X_ROW, 5
	.set ARG_X_PANEL, 6
	.set ARG_X_GROUP, 7
	.set ARG_OUT_ROW, 8
	.set ARG_OUT_PANEL, 9
	.set ARG_FACTOR, 10

	.section .text.kernel, "ax"
	.globl kernel_entry
	.supervisor
	.p2align 3
kernel_entry:
	setzi $m1, worker
	runall $m1, $m0, 0
	sync 2
	br $m10

// m0 x, m1 out of the current group; m2 atoms from a row to the next; m3 rows; m4 atoms of a row;
// m5 atom of the row; m6 groups left; m7, m8 bytes from a group to the next in x and out; m9, m10,
// m11 temporary
	.worker
	.p2align 3
worker:
	{ get $m5, WSR ; setzi $a0, 8 }
	{ and $m5, $m5, 7 ; uput FP_CLR, $a0 }
	{ ld32 $m0, $mvertex_base, $mzero, ARG_X ; fnop }
	{ ld32 $m1, $mvertex_base, $mzero, ARG_OUT ; fnop }
	{ ld32 $m2, $mvertex_base, $mzero, ARG_X_ROW ; fnop }
	{ shr $m2, $m2, 3 ; fnop }
	{ ld32 $m3, $mvertex_base, $mzero, ARG_ROWS ; fnop }
	{ ld32 $m4, $mvertex_base, $mzero, ARG_PANELS ; fnop }
	{ shl $m4, $m4, 2 + IN_F32 ; fnop }
	{ ld32 $m6, $mvertex_base, $mzero, ARG_GROUPS ; fnop }
	{ ld32 $m7, $mvertex_base, $mzero, ARG_X_GROUP ; fnop }
	{ ld32 $m8, $mvertex_base, $mzero, ARG_OUT_ROW ; fnop }
	{ ld32 $a6, $mvertex_base, $mzero, ARG_FACTOR ; fnop }
unit:
	{ sub $m9, $m5, $m4 ; fnop }
	{ brneg $m9, inside ; fnop }
	// The atom belongs to a later group.
	{ add $m6, $m6, -1 ; fnop }
	{ brz $m6, done ; fnop }
	{ add $m5, $m9, 0 ; fnop }
	{ add $m0, $m0, $m7 ; fnop }
	{ add $m1, $m1, $m8 ; fnop }
	{ bri unit ; fnop }
inside:
	{ shr $m9, $m5, 2 + IN_F32 ; fnop }
	{ ld32 $m10, $mvertex_base, $mzero, ARG_X_PANEL ; fnop }
	{ mul $m10, $m9, $m10 ; fnop }
	{ add $m11, $m0, $m10 ; fnop }
	{ and $m10, $m5, 3 + 4 * IN_F32 ; fnop }
	{ shl $m10, $m10, 3 ; fnop }
	.if IN_F32
	.if MAX
	{ add $m11, $m11, $m10 ; not64 $a4:5, $azeros }
	{ nop ; not64 $a0:1, $azeros }
	{ rpt $m3, 0 ; fnop }
	{ ld64step $a0:1, $mzero, $m11+=, $m2 ; f32v2max $a4:5, $a4:5, $a0:1 }
	{ ld32 $m11, $mvertex_base, $mzero, ARG_OUT_PANEL ; f32v2max $a4:5, $a4:5, $a0:1 }
	{ mul $m9, $m9, $m11 ; fnop }
	.else
	{ add $m11, $m11, $m10 ; and64 $a4:5, $azeros, $azeros }
	{ nop ; and64 $a0:1, $azeros, $azeros }
	{ rpt $m3, 0 ; fnop }
	{ ld64step $a0:1, $mzero, $m11+=, $m2 ; f32v2add $a4:5, $a4:5, $a0:1 }
	{ ld32 $m11, $mvertex_base, $mzero, ARG_OUT_PANEL ; f32v2add $a4:5, $a4:5, $a0:1 }
	{ mul $m9, $m9, $m11 ; f32v2mul $a4:5, $a6:B, $a4:5 }
	.endif
	.elseif MAX
	{ add $m11, $m11, $m10 ; not64 $a4:5, $azeros }
	{ nop ; not64 $a0:1, $azeros }
	{ rpt $m3, 0 ; fnop }
	{ ld64step $a0:1, $mzero, $m11+=, $m2 ; f16v4max $a4:5, $a4:5, $a0:1 }
	{ ld32 $m11, $mvertex_base, $mzero, ARG_OUT_PANEL ; f16v4max $a4:5, $a4:5, $a0:1 }
	{ mul $m9, $m9, $m11 ; fnop }
	.else
	{ add $m11, $m11, $m10 ; and64 $a0:1, $azeros, $azeros }
	{ rpt $m3, 0 ; fnop }
	{ ld64step $a0:1, $mzero, $m11+=, $m2 ; f16v4acc $a0:1 }
	// Reading the sums leaves zeros.
	{ ld32 $m11, $mvertex_base, $mzero, ARG_OUT_PANEL ; f16v4acc $a0:1 }
	{ mul $m9, $m9, $m11 ; f32v2gina $a0:1, $azeros, 0 }
	{ nop ; f32v2gina $a2:3, $azeros, 0 }
	{ nop ; f32v2mul $a0:1, $a6:B, $a0:1 }
	{ nop ; f32v2mul $a2:3, $a6:B, $a2:3 }
	.endif
	{ add $m9, $m9, $m1 ; fnop }
	.if F32
	{ shl $m10, $m10, 1 ; fnop }
	{ st64 $a0:1, $m9, $m10, 0 ; fnop }
	{ st64 $a2:3, $m9, $m10, 1 ; fnop }
	.else
	.if (MAX | IN_F32) == 0
	{ nop ; f32v4tof16 $a4:5, $a0:3 }
	.endif
	{ st64 $a4:5, $m9, $m10, 0 ; fnop }
	.endif
	{ add $m5, $m5, 6 ; fnop }
	{ bri unit ; fnop }
done:
	exitz $mzero
