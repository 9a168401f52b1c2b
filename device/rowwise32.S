// Kernels that take whole rows of f32 to one worker each: softmax, layer norm, RMS norm and the
// reductions of rows. All arithmetic is f32, in two lanes: the elements of even columns and those of
// odd ones, which are added last.
//
// Define KIND: 0 softmax, 1 layer norm, 2 RMS norm, 3 row sum times factor, 4 row maximum;
// for softmax also CAUSAL: 1 row i of the matrix sees its first visible + i columns only.
//
// Records: those of rowwise.S, for panels of 64 bytes a row: scale and bias are f32, a row of the result
// of a reduction is 64 bytes, the result and 15 zeros.
// columns >= 1; strides are multiples of 8, scale and bias contiguous and padded to panels.
//
// Padding of x is never taken for data, whatever it holds. Padding of out is 0 for softmax and
// the reductions; for the norms it is (normalised padding) * scale + bias, so 0 where scale and
// bias are 0 and x is finite.
//
// Memory rules: none; one access an instruction, out may be x. Nothing is read beyond the end.
//
// Worker w takes rows_each + (w < rows_extra) rows from w * rows_each + min(w, rows_extra) on.
// A worker without rows exits.
//
// Slots of a panel but the last, which costs some more for its masks; they are in the laws:
//   softmax      8 + 73 + 16    maximum 1 an atom (loads), exponentials 9 (float unit: shift, scale, two
//                               exp of 3, sum), product 2 (load and store)
//   layer norm   8 + 24 + 48    mean 1 (loads), squares 3 (float unit), result 6
//   RMS norm     16 + 32        squares 2 (float unit), result 4
//   sum, maximum 8              1 (loads)
// Rows are not shared: fewer than six rows leave workers idle.
//
// Errors: each operation rounds once, so those of a sum grow with the elements of a lane. softmax:
// x - maximum and the product with scale are rounded, which is 2^-23 of the argument at most, then
// exp, sum, reciprocal and product once each. Layer norm takes the squares of the deviations, so that nothing
// cancels but what cancels in x - mean.
//
// NaN and infinities: a NaN makes its row NaN, but the maximum ignores it. A row of softmax with
// nothing but -inf, or with +inf, is NaN.

	.set WSR, 1

	.set SOFTMAX, 0
	.set LAYER, 1
	.set RMS, 2
	.set SUM, 3
	.set MAX, 4
	.if KIND != SOFTMAX
	.set CAUSAL, 0
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
	.set ARG_ROWS_EACH, ARG_OUT + 1
	.set ARG_ROWS_EXTRA, ARG_OUT + 2
	.set ARG_COLUMNS, ARG_OUT + 3
	.set ARG_X_ROW, ARG_OUT + 4
	.set ARG_X_PANEL, ARG_OUT + 5
	.set ARG_OUT_ROW, ARG_OUT + 6
	.set ARG_OUT_PANEL, ARG_OUT + 7
	.if KIND == SUM
	.set ARG_FACTOR, ARG_OUT + 7
	.endif
	.set ARG_FIRST, ARG_OUT + 8         // softmax: scale; norms: epsilon
	.set ARG_INVERSE, ARG_OUT + 9
	.set ARG_FIRST_ROW, ARG_OUT + 9
	.set ARG_PERIOD, ARG_OUT + 10
	.set ARG_VISIBLE, ARG_OUT + 11

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
//   m2  softmax, causal: row of the matrix; norms: scale
//   m3  layer norm: bias; causal: panels of all columns - 1
//   m4  atoms from the last atom of a panel of x to the first of the next; m5  the same of out
//   m6  panels - 1               m7  masks of the last panel's eight atoms
//   m8  rows - 1                 m9, m10, m11  temporary, pointers
	.worker

	// m6 and m7 from m9 = columns - 1.
	.macro COLUMNS
	{ shr $m6, $m9, 4 ; fnop }
	{ and $m7, $m9, 1 ; fnop }
	{ mul $m7, $m7, 120 ; fnop }
	{ and $m9, $m9, 14 ; fnop }
	{ shl $m9, $m9, 2 ; fnop }
	{ sub $m7, $m7, $m9 ; fnop }
	{ setzi $m9, masks + 56 ; fnop }
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
	{ ld32 $m9, $mvertex_base, $mzero, ARG_X_ROW ; fnop }
	{ mul $m9, $m9, $m2 ; fnop }
	{ ld32 $m0, $mvertex_base, $mzero, ARG_X ; fnop }
	{ add $m0, $m0, $m9 ; fnop }
	{ ld32 $m9, $mvertex_base, $mzero, ARG_OUT_ROW ; fnop }
	{ mul $m9, $m9, $m2 ; fnop }
	{ ld32 $m1, $mvertex_base, $mzero, ARG_OUT ; fnop }
	{ add $m1, $m1, $m9 ; fnop }
	{ ld32 $m4, $mvertex_base, $mzero, ARG_X_PANEL ; fnop }
	{ shr $m4, $m4, 3 ; fnop }
	{ add $m4, $m4, -7 ; fnop }
	.if KIND <= RMS
	{ ld32 $m5, $mvertex_base, $mzero, ARG_OUT_PANEL ; fnop }
	{ shr $m5, $m5, 3 ; fnop }
	{ add $m5, $m5, -7 ; fnop }
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

	// a4 = `op` over the row's elements, as far as `op` does not see what is loaded first. Padding is
	// combined with its mask by `mask`.
	.macro ALL op, mask, one
	{ rpt $m6, 7 ; fnop }
	.rept 7
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; \op $a4:5, $a4:5, $a0:1 }
	.endr
	{ ld64step $a0:1, $mzero, $m9+=, $m4 ; \op $a4:5, $a4:5, $a0:1 }
	{ ld64 $a2:3, $m7, $mzero, 0 ; \op $a4:5, $a4:5, $a0:1 }
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; fnop }
	ALL_LAST \op, \mask, 1
	ALL_LAST \op, \mask, 2
	ALL_LAST \op, \mask, 3
	ALL_LAST \op, \mask, 4
	ALL_LAST \op, \mask, 5
	ALL_LAST \op, \mask, 6
	ALL_LAST \op, \mask, 7
	{ nop ; \mask $a2:3, $a0:1, $a2:3 }
	{ nop ; \op $a4:5, $a4:5, $a2:3 }
	{ nop ; \one $a4, $a4, $a5 }
	.endm
	.macro ALL_LAST op, mask, j
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; \mask $a2:3, $a0:1, $a2:3 }
	{ ld64 $a2:3, $m7, $mzero, \j ; \op $a4:5, $a4:5, $a2:3 }
	.endm

	// a4 = the largest of the row's elements. Padding becomes NaN, which loses.
	.macro MAXIMUM
	{ add $m9, $m0, 0 ; not64 $a4:5, $azeros }
	{ nop ; not64 $a0:1, $azeros }
	ALL f32v2max, or64, f32max
	.endm

	// a4 = the sum of the row's elements.
	.macro TOTAL
	{ add $m9, $m0, 0 ; and64 $a4:5, $azeros, $azeros }
	{ nop ; and64 $a0:1, $azeros, $azeros }
	ALL f32v2add, andc64, f32add
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
	// a4 = -maximum, a5 = scale, a6:7 = sums; exponentials to out.
	{ ld32 $a5, $mvertex_base, $mzero, ARG_FIRST ; f32sub $a4, $azero, $a4 }
	{ add $m9, $m0, 0 ; and64 $a6:7, $azeros, $azeros }
	{ add $m10, $m1, 0 ; fnop }
	{ rpt $m6, 40 ; fnop }
	.macro EXP_ATOM main, store
	{ nop ; f32v2add $a0:1, $a4:B, $a2:3 }
	{ nop ; f32v2mul $a0:1, $a5:B, $a0:1 }
	{ nop ; f32exp $a0, $a0 }
	{ \main ; f32exp $a1, $a1 }
	{ st64step $a0:1, $mzero, $m10+=, \store ; f32v2add $a6:7, $a6:7, $a0:1 }
	.endm
	{ ld64step $a2:3, $mzero, $m9+=, 1 ; fnop }
	EXP_ATOM "ld64step $a2:3, $mzero, $m9+=, 1", 1
	EXP_ATOM "ld64step $a2:3, $mzero, $m9+=, 1", 1
	EXP_ATOM "ld64step $a2:3, $mzero, $m9+=, 1", 1
	EXP_ATOM "ld64step $a2:3, $mzero, $m9+=, 1", 1
	EXP_ATOM "ld64step $a2:3, $mzero, $m9+=, 1", 1
	EXP_ATOM "ld64step $a2:3, $mzero, $m9+=, 1", 1
	EXP_ATOM "ld64step $a2:3, $mzero, $m9+=, $m4", 1
	EXP_ATOM nop, $m5
	// The last panel: masked after the exponential, which may be NaN in padding.
	.macro EXP_LAST j
	{ ld64step $a2:3, $mzero, $m9+=, 1 ; fnop }
	{ nop ; f32v2add $a0:1, $a4:B, $a2:3 }
	{ ld64 $a2:3, $m7, $mzero, \j ; f32v2mul $a0:1, $a5:B, $a0:1 }
	{ nop ; f32exp $a0, $a0 }
	{ nop ; f32exp $a1, $a1 }
	{ nop ; andc64 $a0:1, $a0:1, $a2:3 }
	{ st64step $a0:1, $mzero, $m10+=, 1 ; f32v2add $a6:7, $a6:7, $a0:1 }
	.endm
	EXP_LAST 0
	EXP_LAST 1
	EXP_LAST 2
	EXP_LAST 3
	EXP_LAST 4
	EXP_LAST 5
	EXP_LAST 6
	EXP_LAST 7
	// -> a6 = 1 / sum.
	{ add $m10, $m1, 0 ; f32add $a6, $a6, $a7 }
	{ ld32 $m9, $mvertex_base, $mzero, ARG_X_ROW ; f32oox $a6, $a6 }
	{ add $m0, $m0, $m9 ; fnop }
	{ ld32 $m9, $mvertex_base, $mzero, ARG_OUT_ROW ; fnop }
	{ add $m1, $m1, $m9 ; fnop }
	{ add $m9, $m6, 1 ; fnop }
	{ rpt $m9, 15 ; fnop }
	.macro SCALE_ATOMS store
	{ ld64 $a0:1, $m10, $mzero, 0 ; fnop }
	{ ld64 $a2:3, $m10, $mzero, 1 ; f32v2mul $a0:1, $a6:B, $a0:1 }
	{ st64step $a0:1, $mzero, $m10+=, 1 ; f32v2mul $a2:3, $a6:B, $a2:3 }
	{ st64step $a2:3, $mzero, $m10+=, \store ; fnop }
	.endm
	SCALE_ATOMS 1
	SCALE_ATOMS 1
	SCALE_ATOMS 1
	SCALE_ATOMS $m5
	.if CAUSAL
	// Panels that the row does not see; the next row.
	{ shr $m9, $m3, 4 ; fnop }
	{ sub $m9, $m9, $m6 ; fnop }
	{ rpt $m9, 7 ; fnop }
	.rept 7
	{ st64step $azeros, $mzero, $m10+=, 1 ; fnop }
	.endr
	{ st64step $azeros, $mzero, $m10+=, $m5 ; fnop }
	{ ld32 $m9, $mvertex_base, $mzero, ARG_PERIOD ; fnop }
	{ add $m2, $m2, 1 ; fnop }
	{ cmpne $m9, $m2, $m9 ; fnop }
	{ mul $m2, $m2, $m9 ; fnop }
	.endif
	brnzdec $m8, row
	.endif

	.if KIND == SUM || KIND == MAX
	.p2align 3
row:
	.if KIND == SUM
	TOTAL
	{ ld32 $a5, $mvertex_base, $mzero, ARG_FACTOR ; fnop }
	{ ld32 $m9, $mvertex_base, $mzero, ARG_X_ROW ; f32mul $a4, $a4, $a5 }
	.else
	MAXIMUM
	{ ld32 $m9, $mvertex_base, $mzero, ARG_X_ROW ; fnop }
	.endif
	{ add $m0, $m0, $m9 ; and $a5, $azero, $azero }
	{ ld32 $m9, $mvertex_base, $mzero, ARG_OUT_ROW ; fnop }
	{ add $m10, $m1, 0 ; fnop }
	{ st64step $a4:5, $mzero, $m10+=, 1 ; fnop }
	.rept 7
	{ st64step $azeros, $mzero, $m10+=, 1 ; fnop }
	.endr
	{ add $m1, $m1, $m9 ; fnop }
	brnzdec $m8, row
	.endif

	.if KIND == LAYER || KIND == RMS
	// a6:7 = the sums of the squares, for layer norm of the deviations from -a4. The square of an atom
	// is in a2:3 until the next one is loaded.
	.macro SQUARE load
	{ ld64step $a0:1, $mzero, $m9+=, \load ; f32v2add $a6:7, $a6:7, $a2:3 }
	.if KIND == LAYER
	{ nop ; f32v2add $a0:1, $a4:B, $a0:1 }
	.endif
	{ nop ; f32v2mul $a2:3, $a0:1, $a0:1 }
	.endm
	.macro LAST_SQUARE j
	{ ld64step $a0:1, $mzero, $m9+=, 1 ; f32v2add $a6:7, $a6:7, $a2:3 }
	.if KIND == LAYER
	{ ld64 $a2:3, $m7, $mzero, \j ; f32v2add $a0:1, $a4:B, $a0:1 }
	.else
	{ ld64 $a2:3, $m7, $mzero, \j ; fnop }
	.endif
	{ nop ; andc64 $a0:1, $a0:1, $a2:3 }
	{ nop ; f32v2mul $a2:3, $a0:1, $a0:1 }
	.endm
	// An atom of the result.
	.macro NORMAL load, store
	{ ld64step $a0:1, $mzero, $m9+=, \load ; fnop }
	.if KIND == LAYER
	{ ld64step $a2:3, $mzero, $m2+=, 1 ; f32v2add $a0:1, $a4:B, $a0:1 }
	{ ld64step $a6:7, $mzero, $m3+=, 1 ; f32v2mul $a0:1, $a5:B, $a0:1 }
	{ nop ; f32v2mul $a0:1, $a0:1, $a2:3 }
	{ nop ; f32v2add $a0:1, $a0:1, $a6:7 }
	.else
	{ ld64step $a2:3, $mzero, $m2+=, 1 ; f32v2mul $a0:1, $a5:B, $a0:1 }
	{ nop ; f32v2mul $a0:1, $a0:1, $a2:3 }
	.endif
	{ st64step $a0:1, $mzero, $m10+=, \store ; fnop }
	.endm

	.p2align 3
row:
	.if KIND == LAYER
	TOTAL
	// -> a4 = -mean.
	{ ld32 $a5, $mvertex_base, $mzero, ARG_INVERSE ; fnop }
	{ ld32 $m3, $mvertex_base, $mzero, ARG_BIAS ; f32mul $a4, $a4, $a5 }
	{ nop ; f32sub $a4, $azero, $a4 }
	.endif
	{ add $m9, $m0, 0 ; and64 $a6:7, $azeros, $azeros }
	{ ld32 $m2, $mvertex_base, $mzero, ARG_SCALE ; and64 $a2:3, $azeros, $azeros }
	.if KIND == LAYER
	{ rpt $m6, 23 ; fnop }
	.else
	{ rpt $m6, 15 ; fnop }
	.endif
	SQUARE 1
	SQUARE 1
	SQUARE 1
	SQUARE 1
	SQUARE 1
	SQUARE 1
	SQUARE 1
	SQUARE $m4
	LAST_SQUARE 0
	LAST_SQUARE 1
	LAST_SQUARE 2
	LAST_SQUARE 3
	LAST_SQUARE 4
	LAST_SQUARE 5
	LAST_SQUARE 6
	LAST_SQUARE 7
	// -> a5 = 1 / sqrt(mean of the squares + epsilon).
	{ ld32 $a5, $mvertex_base, $mzero, ARG_INVERSE ; f32v2add $a6:7, $a6:7, $a2:3 }
	{ add $m9, $m0, 0 ; f32add $a6, $a6, $a7 }
	{ ld32 $a7, $mvertex_base, $mzero, ARG_FIRST ; f32mul $a6, $a6, $a5 }
	{ add $m10, $m1, 0 ; f32add $a6, $a6, $a7 }
	{ ld32 $m11, $mvertex_base, $mzero, ARG_X_ROW ; f32oorx $a5, $a6 }
	{ add $m0, $m0, $m11 ; fnop }
	{ ld32 $m11, $mvertex_base, $mzero, ARG_OUT_ROW ; fnop }
	{ add $m1, $m1, $m11 ; fnop }
	{ add $m11, $m6, 1 ; fnop }
	.if KIND == LAYER
	{ rpt $m11, 47 ; fnop }
	.else
	{ rpt $m11, 31 ; fnop }
	.endif
	NORMAL 1, 1
	NORMAL 1, 1
	NORMAL 1, 1
	NORMAL 1, 1
	NORMAL 1, 1
	NORMAL 1, 1
	NORMAL 1, 1
	NORMAL $m4, $m5
	brnzdec $m8, row
	.endif

no_rows:
	exitz $mzero

	// For an odd, then an even number of columns in the last panel: marks of the padding in fifteen
	// atoms, seven without, one with one element of it or none, seven with nothing else.
	.p2align 3
masks:
	.macro MASKS high
	.long 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
	.long 0, \high
	.rept 14
	.long 0xffffffff
	.endr
	.endm
	MASKS 0xffffffff
	MASKS 0
