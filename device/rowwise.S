// Kernels that take whole rows of f16 to one worker each: softmax, layer norm, RMS norm and the
// reductions of rows. Statistics and normalised values are f32 in the accumulators; only the
// arguments and results of exp2, and what goes to memory, are f16.
//
// Define KIND: 0 softmax, 1 layer norm, 2 RMS norm, 3 row sum times factor, 4 row maximum;
// for softmax also CAUSAL: 1 row i of the matrix sees its first visible + i columns only; and without
// it PARTIAL: 1 the columns are a part of the row: exponentials stay as they are, and what makes
// results of parts comparable is kept (combine_softmax.S).
//
// Records (x_row and so on: bytes from a row to the next, from a panel of 16 columns to the next):
//   softmax     x, out, rows_each, rows_extra, columns, x_row, x_panel, out_row, out_panel, scale
//               [, first_row, period, visible]: softmax(scale * x), scale f32, 0 <= scale < 40000;
//               row r of the buffer is row (first_row + r) mod period, first_row < period,
//               visible >= 1. Columns beyond `columns`, or hidden, are 0 in out
//   partial     x, out, stats, rows_each, rows_extra, columns, x_row, x_panel, out_row, out_panel,
//               scale, stats_offset: out = exp2(factor * x + shift), at most 1, factor = scale *
//               log2(e), shift = -factor * (largest x of the row). Row r of stats, 32 bytes from
//               stats_offset + 32 r on, gets the f32 sum of the row of out, the shift, zeros
//   layer norm  x, scale, bias, out, rows_each, rows_extra, columns, x_row, x_panel, out_row,
//               out_panel, epsilon, inverse (1 / columns), both f32
//   RMS norm    x, scale, out, and the words of layer norm
//   reductions  x, out, rows_each, rows_extra, columns, x_row, x_panel, out_row, factor (f32;
//               unused by the maximum): 32 bytes a row of out, the result and 15 zeros
// columns >= 1; strides are multiples of 8, scale and bias contiguous and padded to panels.
//
// Padding of x is never taken for data, whatever it holds. Padding of out is 0 for softmax and
// the reductions; for the norms it is (normalised padding) * scale + bias, so 0 where scale and
// bias are 0 and x is no NaN.
//
// Memory rules: none; one access an instruction, out may be x. Nothing is read beyond the end.
//
// Worker w takes rows_each + (w < rows_extra) rows from w * rows_each + min(w, rows_extra) on.
// A worker without rows exits.
//
// Slots of a worker with r rows of p panels, and what limits an atom of a row:
//   softmax      40 + r (37 + 40 p)   maximum 1 (loads), exponentials 7 (float unit: mix, shift, two
//                                     exp2 of 2, sum), product 2 (load and store): 10
//   partial      45 + r (37 + 32 p)   as softmax without the product: 8
//   causal       38 + r (56 + 40 v + 4 (p - v)) where v panels are seen, and 2 a matrix skipped
//   layer norm   40 + r (61 + 26 p)   mean 1 (loads), squares 1.5 (float unit), result 4 (both): 6.5
//   RMS norm     39 + r (37 + 16 p)   squares 1 (loads), result 3 (loads and stores): 4
//   sum          35 + r (21 + 4 p)    1 (loads)
//   maximum      33 + r (21 + 4 p)    1 (loads)
// Rows are not shared: fewer than six rows leave workers idle.
//
// Errors (u = 2^-11, half an f16 ulp at most): softmax: arguments of exp2 are rounded to f16, which
// is u/2 of the distance to the maximum, then three roundings, 8e-4 at most in all. Norms: three (RMS
// two) roundings of u and, for layer norm, u/2 of the deviation and 2^-22 mean / deviation, which is
// the rounding of the f32 mean. Sums: f32, one rounding.
//
// NaN and infinities: a NaN makes its row NaN, but the maximum ignores it. softmax takes -inf for
// exp = 0 (a row of nothing else is 0), +inf for the f16 maximum. f16v4acc makes an infinity NaN,
// so sums and layer norm of a row with one are NaN. f16 results clip to +-65504.

	.set WSR, 1
	.set FP_CLR, 1
	.set TAS, 8

	.set SOFTMAX, 0
	.set LAYER, 1
	.set RMS, 2
	.set SUM, 3
	.set MAX, 4
	.if KIND != SOFTMAX
	.set CAUSAL, 0
	.endif

	.ifndef PARTIAL
	.set PARTIAL, 0
	.endif

	.set ARG_X, 0
	.if KIND == LAYER
	.set ARG_SCALE, 1
	.set ARG_BIAS, 2
	.set ARG_OUT, 3
	.else
	.if KIND == RMS
	.set ARG_SCALE, 1
	.set ARG_OUT, 2
	.else
	.set ARG_OUT, 1
	.endif
	.endif
	.set ARG_STATS, ARG_OUT + 1
	.set ARG_ROWS_EACH, ARG_OUT + 1 + PARTIAL
	.set ARG_ROWS_EXTRA, ARG_ROWS_EACH + 1
	.set ARG_COLUMNS, ARG_ROWS_EACH + 2
	.set ARG_X_ROW, ARG_ROWS_EACH + 3
	.set ARG_X_PANEL, ARG_ROWS_EACH + 4
	.set ARG_OUT_ROW, ARG_ROWS_EACH + 5
	.set ARG_OUT_PANEL, ARG_ROWS_EACH + 6
	.if KIND == SUM
	.set ARG_FACTOR, ARG_ROWS_EACH + 6
	.endif
	.set ARG_FIRST, ARG_ROWS_EACH + 7   // softmax: scale; norms: epsilon
	.set ARG_INVERSE, ARG_ROWS_EACH + 8
	.set ARG_STATS_OFFSET, ARG_ROWS_EACH + 8
	.set ARG_FIRST_ROW, ARG_ROWS_EACH + 8
	.set ARG_PERIOD, ARG_ROWS_EACH + 9
	.set ARG_VISIBLE, ARG_ROWS_EACH + 10

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
//   m0  x, current row           m1  out, current row
//   m2  softmax, causal: row of the matrix; partial: stats, current row; layer norm: scale; RMS norm: scale
//   m3  layer norm: bias; causal: panels of all columns - 1
//   m4  atoms from the last atom of a panel of x to the first of the next; m5  the same of out
//   m6  panels - 1               m7  masks of the last panel's four atoms
//   m8  rows - 1                 m9, m10, m11  temporary, pointers
	.worker

	// m6 and m7 from m9 = columns - 1.
	.macro COLUMNS
	{ shr $m6, $m9, 4 ; fnop }
	{ and $m7, $m9, 3 ; fnop }
	{ mul $m7, $m7, 56 ; fnop }
	{ and $m9, $m9, 12 ; fnop }
	{ shl $m9, $m9, 1 ; fnop }
	{ sub $m7, $m7, $m9 ; fnop }
	{ setzi $m9, masks + 24 ; fnop }
	{ add $m7, $m7, $m9 ; fnop }
	.endm

	.p2align 3
worker:
	{ get $m8, WSR ; fnop }
	{ and $m8, $m8, 7 ; fnop }
	{ ld32 $m9, $mvertex_base, $mzero, ARG_ROWS_EACH ; fnop }
	{ ld32 $m10, $mvertex_base, $mzero, ARG_ROWS_EXTRA ; fnop }
	{ mul $m2, $m8, $m9 ; fnop }
	{ min $m11, $m8, $m10 ; fnop }
	{ add $m2, $m2, $m11 ; fnop }
	{ cmpult $m11, $m8, $m10 ; fnop }
	{ add $m8, $m9, $m11 ; fnop }
	{ brz $m8, no_rows ; fnop }
	.if KIND == SOFTMAX
	// -> a0 = scale * log2(e) as two f16 factors for f16v4mix. The first is truncated and the
	// second not 0, so that an infinite x does not give NaN (0 * inf, inf - inf).
	{ ld32 $a0, $mvertex_base, $mzero, ARG_FIRST ; fnop }
	{ setzi $m11, constants ; fnop }
	{ ld32 $a1, $m11, $mzero, 2 ; fnop }
	{ ld32 $m9, $mvertex_base, $mzero, ARG_X_ROW ; f32mul $a0, $a0, $a1 }
	{ ld32 $a1, $m11, $mzero, 3 ; fnop }
	{ mul $m9, $m9, $m2 ; and $a1, $a0, $a1 }
	{ ld32 $m0, $mvertex_base, $mzero, ARG_X ; f32tof16 $a1, $a1 }
	{ add $m0, $m0, $m9 ; f16tof32 $a2, $a1 }
	{ ld32 $m9, $mvertex_base, $mzero, ARG_OUT_ROW ; f32sub $a0, $a0, $a2 }
	{ mul $m9, $m9, $m2 ; f32tof16 $a0, $a0 }
	{ ld32 $m1, $mvertex_base, $mzero, ARG_OUT ; or $a0, $a0, 1 }
	{ add $m1, $m1, $m9 ; sort4x16lo $a0, $a1, $a0 }
	{ ld32 $m4, $mvertex_base, $mzero, ARG_X_PANEL ; uput TAS, $a0 }
	.else
	{ ld32 $m9, $mvertex_base, $mzero, ARG_X_ROW ; fnop }
	{ mul $m9, $m9, $m2 ; fnop }
	{ ld32 $m0, $mvertex_base, $mzero, ARG_X ; fnop }
	{ add $m0, $m0, $m9 ; fnop }
	{ ld32 $m9, $mvertex_base, $mzero, ARG_OUT_ROW ; fnop }
	{ mul $m9, $m9, $m2 ; fnop }
	{ ld32 $m1, $mvertex_base, $mzero, ARG_OUT ; fnop }
	{ add $m1, $m1, $m9 ; fnop }
	{ ld32 $m4, $mvertex_base, $mzero, ARG_X_PANEL ; fnop }
	.endif
	{ shr $m4, $m4, 3 ; fnop }
	{ add $m4, $m4, -3 ; fnop }
	.if KIND <= RMS
	{ ld32 $m5, $mvertex_base, $mzero, ARG_OUT_PANEL ; fnop }
	{ shr $m5, $m5, 3 ; fnop }
	{ add $m5, $m5, -3 ; fnop }
	.endif
	{ add $m8, $m8, -1 ; fnop }
	.if CAUSAL
	// The first row's number in its matrix. Whole matrices before it are skipped.
	{ ld32 $m9, $mvertex_base, $mzero, ARG_FIRST_ROW ; fnop }
	{ ld32 $m10, $mvertex_base, $mzero, ARG_PERIOD ; fnop }
	{ add $m2, $m2, $m9 ; fnop }
first_matrix:
	{ sub $m2, $m2, $m10 ; fnop }
	{ brpos $m2, first_matrix ; fnop }
	{ add $m2, $m2, $m10 ; fnop }
	{ ld32 $m3, $mvertex_base, $mzero, ARG_COLUMNS ; fnop }
	{ add $m3, $m3, -1 ; fnop }
	.else
	{ ld32 $m9, $mvertex_base, $mzero, ARG_COLUMNS ; fnop }
	{ add $m9, $m9, -1 ; fnop }
	COLUMNS
	.endif
	.if PARTIAL
	{ shl $m2, $m2, 5 ; fnop }
	{ ld32 $m9, $mvertex_base, $mzero, ARG_STATS ; fnop }
	{ add $m2, $m2, $m9 ; fnop }
	{ ld32 $m9, $mvertex_base, $mzero, ARG_STATS_OFFSET ; fnop }
	{ add $m2, $m2, $m9 ; fnop }
	.endif
	.if KIND == LAYER
	{ ld32 $m2, $mvertex_base, $mzero, ARG_SCALE ; fnop }
	{ ld32 $m3, $mvertex_base, $mzero, ARG_BIAS ; fnop }
	.endif
	.if KIND == RMS
	{ ld32 $m2, $mvertex_base, $mzero, ARG_SCALE ; fnop }
	.endif
	.if KIND == LAYER || KIND == RMS || KIND == SUM
	// Accumulators hold what an earlier kernel left. Every row leaves them 0.
	{ nop ; setzi $a0, 8 }
	{ nop ; uput FP_CLR, $a0 }
	.endif

	// The largest of the row's elements in both halves of a4. Padding becomes NaN, which loses.
	.macro MAXIMUM
	{ add $m9, $m0, 0 ; not64 $a4:5, $azeros }
	{ nop ; not64 $a0:1, $azeros }
	{ rpt $m6, 3 ; fnop }
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; f16v4max $a4:5, $a4:5, $a0:1 }
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; f16v4max $a4:5, $a4:5, $a0:1 }
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; f16v4max $a4:5, $a4:5, $a0:1 }
	{ ld64step $a0:1, $mzero, $m9+=, $m4 ; f16v4max $a4:5, $a4:5, $a0:1 }
	{ ld64 $a2:3, $m7, $mzero, 0 ; f16v4max $a4:5, $a4:5, $a0:1 }
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; fnop }
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; or64 $a2:3, $a2:3, $a0:1 }
	{ ld64 $a2:3, $m7, $mzero, 1 ; f16v4max $a4:5, $a4:5, $a2:3 }
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; or64 $a2:3, $a2:3, $a0:1 }
	{ ld64 $a2:3, $m7, $mzero, 2 ; f16v4max $a4:5, $a4:5, $a2:3 }
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; or64 $a2:3, $a2:3, $a0:1 }
	{ ld64 $a2:3, $m7, $mzero, 3 ; f16v4max $a4:5, $a4:5, $a2:3 }
	{ nop ; or64 $a2:3, $a2:3, $a0:1 }
	{ nop ; f16v4max $a4:5, $a4:5, $a2:3 }
	{ nop ; f16v2max $a4, $a4, $a5 }
	{ nop ; f16v2maxc $a4, $a4 }
	.endm

	.if KIND == SOFTMAX
	.p2align 3
row:
	.if CAUSAL
	{ ld32 $m9, $mvertex_base, $mzero, ARG_VISIBLE ; fnop }
	{ add $m9, $m9, $m2 ; fnop }
	{ add $m9, $m9, -1 ; fnop }
	{ min $m9, $m9, $m3 ; fnop }
	COLUMNS
	.endif
	MAXIMUM
	// -> a4:7 = -scale * maximum four times; zero sums.
	{ ld64 $a2:3, $m11, $mzero, 2 ; fnop }
	{ add $m9, $m0, 0 ; f16v4mul $a0:1, $a4:BL, $a2:3 }
	{ add $m10, $m1, 0 ; f16v4mix $a2:3, $a0:1, $a0:1 }
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; f32v2gina $a4:5, $azeros, 0 }
	{ nop ; f32v2gina $a6:7, $azeros, 0 }
	{ nop ; f32v2gina $a2:3, $azeros, 0 }
	{ nop ; f32v2gina $a2:3, $azeros, 0 }
	// Exponentials to out. Two atoms are under way ahead of the one that is stored.
	{ nop ; f16v4mix $a2:3, $a0:1, $a0:1 }
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; f32v4acc $a4:7 }
	{ nop ; f16v4mix $a2:3, $a0:1, $a0:1 }
	{ rpt $m6, 19 ; fnop }
	.macro EXP_ATOM load, store
	{ ld64 $a0:1, $m11, $mzero, 0 ; f32v4acc $a4:7 }
	{ nop ; f16v2exp2 $a2, $a2 }
	{ nop ; f16v2exp2 $a3, $a3 }
	{ ld64step $a0:1, $mzero, $m9+=, \load ; f16v8acc $a0:3 }
	{ st64step $a2:3, $mzero, $m10+=, \store ; f16v4mix $a2:3, $a0:1, $a0:1 }
	.endm
	EXP_ATOM 1, 1
	EXP_ATOM $m4, 1
	EXP_ATOM 1, 1
	EXP_ATOM 1, $m5
	// The last panel: masked after the exponential, which may be NaN in padding.
	.macro EXP_LAST j
	{ ld64 $a0:1, $m7, $mzero, \j ; f32v4acc $a4:7 }
	{ nop ; f16v2exp2 $a2, $a2 }
	{ nop ; f16v2exp2 $a3, $a3 }
	{ ld64 $a0:1, $m11, $mzero, 0 ; andc64 $a2:3, $a2:3, $a0:1 }
	.endm
	EXP_LAST 0
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; f16v8acc $a0:3 }
	{ st64step $a2:3, $mzero, $m10+=, 1 ; f16v4mix $a2:3, $a0:1, $a0:1 }
	EXP_LAST 1
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; f16v8acc $a0:3 }
	{ st64step $a2:3, $mzero, $m10+=, 1 ; f16v4mix $a2:3, $a0:1, $a0:1 }
	EXP_LAST 2
	{ nop ; f16v8acc $a0:3 }
	{ st64step $a2:3, $mzero, $m10+=, 1 ; f16v4mix $a2:3, $a0:1, $a0:1 }
	EXP_LAST 3
	{ st64step $a2:3, $mzero, $m10+=, 1 ; f16v8acc $a0:3 }
	// -> a4 = 1 / sum.
	{ add $m10, $m1, 0 ; f32v2gina $a0:1, $azeros, 0 }
	{ ld32 $m9, $mvertex_base, $mzero, ARG_X_ROW ; f32v2gina $a0:1, $azeros, 0 }
	{ add $m0, $m0, $m9 ; f32v2gina $a0:1, $azeros, 0 }
	{ ld32 $m9, $mvertex_base, $mzero, ARG_OUT_ROW ; f32v2gina $a2:3, $azeros, 0 }
	{ add $m1, $m1, $m9 ; f32v2add $a0:1, $a0:1, $a2:3 }
	{ nop ; f32add $a0, $a0, $a1 }
	.if PARTIAL
	// The sum, and the shift from a4.
	{ st32step $a0, $mzero, $m2+=, 1 ; fnop }
	{ st32step $a4, $mzero, $m2+=, 1 ; fnop }
	{ st64step $azeros, $mzero, $m2+=, 1 ; fnop }
	{ st64step $azeros, $mzero, $m2+=, 1 ; fnop }
	{ st64step $azeros, $mzero, $m2+=, 1 ; fnop }
	.else
	{ nop ; f32oox $a0, $a0 }
	{ add $m9, $m6, 1 ; f32tof16 $a4, $a0 }
	{ rpt $m9, 7 ; fnop }
	{ ld64 $a0:1, $m10, $mzero, 0 ; fnop }
	{ ld64 $a2:3, $m10, $mzero, 1 ; f16v4mul $a0:1, $a4:BL, $a0:1 }
	{ st64step $a0:1, $mzero, $m10+=, 1 ; f16v4mul $a2:3, $a4:BL, $a2:3 }
	{ st64step $a2:3, $mzero, $m10+=, 1 ; fnop }
	{ ld64 $a0:1, $m10, $mzero, 0 ; fnop }
	{ ld64 $a2:3, $m10, $mzero, 1 ; f16v4mul $a0:1, $a4:BL, $a0:1 }
	{ st64step $a0:1, $mzero, $m10+=, 1 ; f16v4mul $a2:3, $a4:BL, $a2:3 }
	{ st64step $a2:3, $mzero, $m10+=, $m5 ; fnop }
	.endif
	.if CAUSAL
	// Panels that the row does not see; the next row.
	{ shr $m9, $m3, 4 ; fnop }
	{ sub $m9, $m9, $m6 ; fnop }
	{ rpt $m9, 3 ; fnop }
	{ st64step $azeros, $mzero, $m10+=, 1 ; fnop }
	{ st64step $azeros, $mzero, $m10+=, 1 ; fnop }
	{ st64step $azeros, $mzero, $m10+=, 1 ; fnop }
	{ st64step $azeros, $mzero, $m10+=, $m5 ; fnop }
	{ ld32 $m9, $mvertex_base, $mzero, ARG_PERIOD ; fnop }
	{ add $m2, $m2, 1 ; fnop }
	{ cmpne $m9, $m2, $m9 ; fnop }
	{ mul $m2, $m2, $m9 ; fnop }
	.endif
	brnzdec $m8, row
	.endif

	// AACC[0, 2, 4, 6] = sums of the row's elements by their place in an atom, if they were 0.
	.macro ACCUMULATE
	{ add $m9, $m0, 0 ; and64 $a0:1, $azeros, $azeros }
	{ rpt $m6, 3 ; fnop }
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; f16v4acc $a0:1 }
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; f16v4acc $a0:1 }
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; f16v4acc $a0:1 }
	{ ld64step $a0:1, $mzero, $m9+=, $m4 ; f16v4acc $a0:1 }
	{ ld64 $a2:3, $m7, $mzero, 0 ; f16v4acc $a0:1 }
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; fnop }
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; andc64 $a2:3, $a0:1, $a2:3 }
	{ ld64 $a2:3, $m7, $mzero, 1 ; f16v4acc $a2:3 }
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; andc64 $a2:3, $a0:1, $a2:3 }
	{ ld64 $a2:3, $m7, $mzero, 2 ; f16v4acc $a2:3 }
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; andc64 $a2:3, $a0:1, $a2:3 }
	{ ld64 $a2:3, $m7, $mzero, 3 ; f16v4acc $a2:3 }
	{ nop ; andc64 $a2:3, $a0:1, $a2:3 }
	{ nop ; f16v4acc $a2:3 }
	.endm

	// -> a0 = the sum over all lanes; clears them. `one` and `two` are main instructions.
	.macro SUM_4 one, two
	{ \one ; f32v2gina $a0:1, $azeros, 0 }
	{ \two ; f32v2gina $a2:3, $azeros, 0 }
	{ nop ; f32v2add $a0:1, $a0:1, $a2:3 }
	{ nop ; f32add $a0, $a0, $a1 }
	.endm
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

	.if KIND == SUM || KIND == MAX
	.p2align 3
row:
	.if KIND == SUM
	ACCUMULATE
	SUM_4 "ld32 $a4, $mvertex_base, $mzero, ARG_FACTOR", "ld32 $m9, $mvertex_base, $mzero, ARG_X_ROW"
	{ add $m0, $m0, $m9 ; f32mul $a0, $a0, $a4 }
	{ ld32 $m9, $mvertex_base, $mzero, ARG_OUT_ROW ; f32tof16 $a0, $a0 }
	.else
	MAXIMUM
	{ ld32 $m9, $mvertex_base, $mzero, ARG_X_ROW ; fnop }
	{ add $m0, $m0, $m9 ; fnop }
	{ ld32 $m9, $mvertex_base, $mzero, ARG_OUT_ROW ; mov $a0, $a4 }
	.endif
	{ add $m10, $m1, 0 ; sort4x16lo $a0, $a0, $azero }
	{ add $m1, $m1, $m9 ; and $a1, $azero, $azero }
	{ st64step $a0:1, $mzero, $m10+=, 1 ; fnop }
	{ st64step $azeros, $mzero, $m10+=, 1 ; fnop }
	{ st64step $azeros, $mzero, $m10+=, 1 ; fnop }
	{ st64step $azeros, $mzero, $m10+=, 1 ; fnop }
	brnzdec $m8, row
	.endif

	.if KIND == LAYER
	.p2align 3
row:
	ACCUMULATE
	// -> a6 = mean, a7 = the mean in f16, twice.
	SUM_4 "ld32 $a4, $mvertex_base, $mzero, ARG_INVERSE", "add $m9, $m0, 0"
	{ nop ; f32mul $a6, $a0, $a4 }
	{ nop ; f32tof16 $a7, $a6 }
	// Squares of the deviations from a7, two atoms at a time. These are rounded to f16, which
	// is exact where they are small against the mean; 1 / deviation is off by 2^-12 at most.
	{ nop ; or64 $a4:5, $a6:7, $azeros }
	{ nop ; and64 $a2:3, $azeros, $azeros }
	{ nop ; and64 $a0:1, $azeros, $azeros }
	{ rpt $m6, 5 ; fnop }
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; f16v8sqacc $a0:3 }
	{ ld64step $a2:3, $mzero, $m9+=, 1 ; f16v4sub $a0:1, $a5:BL, $a0:1 }
	{ nop ; f16v4sub $a2:3, $a5:BL, $a2:3 }
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; f16v8sqacc $a0:3 }
	{ ld64step $a2:3, $mzero, $m9+=, $m4 ; f16v4sub $a0:1, $a5:BL, $a0:1 }
	{ nop ; f16v4sub $a2:3, $a5:BL, $a2:3 }
	.macro LAST_SQUARES j
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; f16v8sqacc $a0:3 }
	{ ld64step $a2:3, $mzero, $m9+=, 1 ; f16v4sub $a0:1, $a5:BL, $a0:1 }
	{ ld64 $a6:7, $m7, $mzero, \j ; f16v4sub $a2:3, $a5:BL, $a2:3 }
	{ ld64 $a6:7, $m7, $mzero, \j + 1 ; andc64 $a0:1, $a0:1, $a6:7 }
	{ nop ; andc64 $a2:3, $a2:3, $a6:7 }
	.endm
	LAST_SQUARES 0
	LAST_SQUARES 2
	{ nop ; mov $a6, $a4 }
	{ nop ; f16tof32 $a7, $a5 }
	{ nop ; f16v8sqacc $a0:3 }
	// -> a0 = 1 / deviation. The deviations were from a7: its distance from the mean goes off.
	SUM_8
	{ ld32 $a4, $mvertex_base, $mzero, ARG_INVERSE ; f32sub $a7, $a7, $a6 }
	{ ld32 $a5, $mvertex_base, $mzero, ARG_FIRST ; f32mul $a0, $a0, $a4 }
	{ nop ; f32mul $a7, $a7, $a7 }
	{ nop ; f32sub $a0, $a0, $a7 }
	{ nop ; f32max $a0, $a0, $azero }
	{ nop ; f32add $a0, $a0, $a5 }
	{ add $m9, $m0, 0 ; f32oorx $a0, $a0 }
	// -> a4:7 = -mean / deviation.
	{ add $m10, $m1, 0 ; f32mul $a4, $a6, $a0 }
	{ ld32 $m11, $mvertex_base, $mzero, ARG_X_ROW ; f32sub $a4, $azero, $a4 }
	{ add $m0, $m0, $m11 ; mov $a5, $a4 }
	{ ld32 $m11, $mvertex_base, $mzero, ARG_OUT_ROW ; or64 $a6:7, $a4:5, $azeros }
	{ add $m1, $m1, $m11 ; f32tof16 $a1, $a0 }
	{ nop ; f16tof32 $a2, $a1 }
	{ nop ; f32sub $a2, $a0, $a2 }
	{ nop ; f32tof16 $a2, $a2 }
	{ nop ; sort4x16lo $a1, $a1, $a2 }
	{ add $m11, $mzero, 0 ; uput TAS, $a1 }
	// The normalised atom comes out of the mix of the next one. m11 counts bytes of scale and bias.
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; fnop }
	{ nop ; f16v4mix $a2:3, $a0:1, $a0:1 }
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; f32v4acc $a4:7 }
	{ nop ; f16v4mix $a2:3, $a0:1, $a0:1 }
	{ rpt $m6, 15 ; fnop }
	.macro NORMAL load, store
	{ ld64 $a0:1, $m2, $m11, 0 ; f32v4acc $a4:7 }
	{ ld64step $a0:1, $m3, $m11+=, 1 ; f16v4mul $a2:3, $a2:3, $a0:1 }
	{ ld64step $a0:1, $mzero, $m9+=, \load ; f16v4add $a2:3, $a2:3, $a0:1 }
	{ st64step $a2:3, $mzero, $m10+=, \store ; f16v4mix $a2:3, $a0:1, $a0:1 }
	.endm
	NORMAL 1, 1
	NORMAL $m4, 1
	NORMAL 1, 1
	NORMAL 1, $m5
	NORMAL 1, 1
	NORMAL 1, 1
	.rept 2
	{ ld64 $a0:1, $m2, $m11, 0 ; f32v4acc $a4:7 }
	{ ld64step $a0:1, $m3, $m11+=, 1 ; f16v4mul $a2:3, $a2:3, $a0:1 }
	{ nop ; f16v4add $a2:3, $a2:3, $a0:1 }
	{ st64step $a2:3, $mzero, $m10+=, 1 ; f16v4mix $a2:3, $a0:1, $a0:1 }
	.endr
	// Zero sums for the next row: the accumulators hold products of no row.
	{ nop ; setzi $a0, 8 }
	{ nop ; uput FP_CLR, $a0 }
	brnzdec $m8, row
	.endif

	.if KIND == RMS
	.p2align 3
row:
	{ add $m9, $m0, 0 ; and64 $a2:3, $azeros, $azeros }
	{ nop ; and64 $a0:1, $azeros, $azeros }
	{ rpt $m6, 3 ; fnop }
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; f16v8sqacc $a0:3 }
	{ ld64step $a2:3, $mzero, $m9+=, 1 ; fnop }
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; f16v8sqacc $a0:3 }
	{ ld64step $a2:3, $mzero, $m9+=, $m4 ; fnop }
	.macro LAST_SQUARES j
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; f16v8sqacc $a0:3 }
	{ ld64step $a2:3, $mzero, $m9+=, 1 ; fnop }
	{ ld64 $a6:7, $m7, $mzero, \j ; fnop }
	{ ld64 $a6:7, $m7, $mzero, \j + 1 ; andc64 $a0:1, $a0:1, $a6:7 }
	{ nop ; andc64 $a2:3, $a2:3, $a6:7 }
	.endm
	LAST_SQUARES 0
	LAST_SQUARES 2
	{ add $m9, $m0, 0 ; f16v8sqacc $a0:3 }
	SUM_8
	{ ld32 $a4, $mvertex_base, $mzero, ARG_INVERSE ; fnop }
	{ ld32 $a5, $mvertex_base, $mzero, ARG_FIRST ; f32mul $a0, $a0, $a4 }
	{ add $m10, $m1, 0 ; f32add $a0, $a0, $a5 }
	{ ld32 $m11, $mvertex_base, $mzero, ARG_X_ROW ; f32oorx $a0, $a0 }
	{ add $m0, $m0, $m11 ; f32tof16 $a1, $a0 }
	{ ld32 $m11, $mvertex_base, $mzero, ARG_OUT_ROW ; f16tof32 $a2, $a1 }
	{ add $m1, $m1, $m11 ; f32sub $a2, $a0, $a2 }
	{ add $m11, $m2, 0 ; f32tof16 $a2, $a2 }
	{ ld64step $a4:5, $mzero, $m9+=, 1 ; sort4x16lo $a1, $a1, $a2 }
	{ nop ; uput TAS, $a1 }
	// The normalised atom comes out of the mix of the next one.
	{ ld64step $a4:5, $mzero, $m9+=, 1 ; f16v4mix $a2:3, $a4:5, $a4:5 }
	{ nop ; f16v4mix $a2:3, $a4:5, $a4:5 }
	{ rpt $m6, 11 ; fnop }
	.macro NORMAL load, store
	{ ld64step $a0:1, $mzero, $m11+=, 1 ; fnop }
	{ ld64step $a4:5, $mzero, $m9+=, \load ; f16v4mul $a2:3, $a2:3, $a0:1 }
	{ st64step $a2:3, $mzero, $m10+=, \store ; f16v4mix $a2:3, $a4:5, $a4:5 }
	.endm
	NORMAL 1, 1
	NORMAL $m4, 1
	NORMAL 1, 1
	NORMAL 1, $m5
	NORMAL 1, 1
	NORMAL 1, 1
	.rept 2
	{ ld64step $a0:1, $mzero, $m11+=, 1 ; fnop }
	{ nop ; f16v4mul $a2:3, $a2:3, $a0:1 }
	{ st64step $a2:3, $mzero, $m10+=, 1 ; f16v4mix $a2:3, $a4:5, $a4:5 }
	.endr
	{ nop ; setzi $a0, 8 }
	{ nop ; uput FP_CLR, $a0 }
	brnzdec $m8, row
	.endif

no_rows:
	exitz $mzero

	// The constants, then, for each remainder of the columns by 4, marks of the padding in seven
	// atoms: three without, one with 3, 2, 1 or 0 elements of it, three with nothing else.
	.p2align 3
constants:
	.long 0, 0, 0x3fb8aa3b, 0xffffe000          // log2(e), the bits of an f16 factor
	.long 0xbc00bc00, 0xbc00bc00                // -1
masks:
	.macro MASKS low, high
	.long 0, 0, 0, 0, 0, 0, \low, \high
	.long 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff
	.endm
	MASKS 0xffff0000, 0xffffffff
	MASKS 0, 0xffffffff
	MASKS 0, 0xffff0000
	MASKS 0, 0
