// out = act(a * weights + bias) on one tile, all f32, by the AMP units: f32sisov2amp, 16 columns at
// a time, 16 products a clock.
//
// Defines:  BIAS  1: partial sums start from the bias; 0: from zero
//           RELU  1: max(x, 0) on the way out
//           BATCHED  1: a product for each element of a batch; without BIAS and RELU. 0 by default
//
// Record:   a, weights, [bias,] out,
//           rows_each, rows_extra, k_blocks >= 1, groups >= 1, a_stride, out_stride,
//           [batches >= 1, a_batch, out_batch if BATCHED]
//   a        panels of 16 of K, 64 bytes a row, a_stride bytes from panel to panel
//   weights  interleaved memory; the groups of 16 columns one after the other, in each the blocks
//            of 8 of K, two a k_block: 16 columns of 8 f32. The whole buffer is read once, in
//            order, so CCCSLOAD is written once a call. If BATCHED the elements of the batch follow
//            each other
//   bias     64 bytes a group
//   out      interleaved memory, panels of 16 columns, 64 bytes a row, out_stride bytes from panel
//            to panel; holds the partial sums as well
//   a_batch, out_batch: bytes from an element of the batch to the next
//
// A pass is the launches of one group, one for 8 of K. Worker w takes rows_each + (w < rows_extra)
// rows, of every element of the batch, from w * rows_each + min(w, rows_extra) on; a worker without
// rows exits. Three kinds of launch: first takes the partial sums from bias or zero, next from
// memory, final is next with relu.
//
// The AMP pipeline: step j = 8 * row + phase multiplies one of 8 of K of its row by the weights of 16
// columns and pushes atom (8 bytes) j + 8 of the partial sums, those of the next row; it returns
// atom j - 8 of the results, those of the row before. Even phases do so for the first 8 units, odd
// ones for the others. Hence eight priming steps that push row 0, and eight draining ones. They
// also replace the whole accumulator state, so nothing relies on accumulators kept between
// launches. x of the draining steps is not 0 but whatever was read: no result depends on it.
//
// Memory rules: one instruction must not touch a memory macro twice. A bundle loads a partial sum,
// every other one also an atom of a, and stores a result. The store trails the load by 19 atoms,
// and atoms an odd distance apart lie in different macros of interleaved memory; that is why a
// result waits one step in a4:5 or a6:7. a, bias and out must lie in different elements.
// Read beyond the end: 48 bytes of a, 88 bytes of out, nothing of bias.
//
// Bundles of a worker with r rows: first 20 + 8r, with bias 26 + 8r; next 21 + 8r, final with relu
// 20 + 16r. A call also spends 20 bundles, with bias 21, on its row split, and 9 for each further
// element of the batch.

	.ifndef BATCHED
	.set BATCHED, 0
	.endif

	.set WSR, 1
	.set CCCSLOAD, 80

	.set ARG_A, 0
	.set ARG_WEIGHTS, 1
	.set ARG_BIAS, 2
	.set ARG_OUT, 2 + BIAS
	.set ARG_ROWS_EACH, ARG_OUT + 1
	.set ARG_ROWS_EXTRA, ARG_OUT + 2
	.set ARG_K_BLOCKS, ARG_OUT + 3
	.set ARG_GROUPS, ARG_OUT + 4
	.set ARG_A_STRIDE, ARG_OUT + 5
	.set ARG_OUT_STRIDE, ARG_OUT + 6
	.set ARG_BATCHES, ARG_OUT + 7
	.set ARG_A_BATCH, ARG_OUT + 8
	.set ARG_OUT_BATCH, ARG_OUT + 9

	// Pace strides in atoms: code 1 = -7 (bias, back to its first atom), code 2 = +5 (a, over the
	// other half of the panel), code 3 = 0.
	.set STRIDES, 1017 + 5 * 1024
	.set BIAS_BACK, 1               // code 1 for the first load
	.set NEXT_ROW, 8                // code 2 for the second load
	.set STAY, 12                   // code 3 for the second load

// ---------------------------------------------------------------------------------------------
// Supervisor. m0 record, m2 inner launches of a pass, m3 passes left - 1, m5 worker entry of this
// pass's first launch, m6 that of the next passes, m7 next-inner, m8 next-final, m9 inner launches
// left - 1; m1 and m9 also temporary. BATCHED: m4 elements of the batch left - 1.

	// The weights of one column into its AMP unit.
	.macro WEIGHTS_OF unit
	ld128putcs 4 * \unit
	ld128putcs 4 * \unit + 2
	.endm

	// The weights of a block. Phases return units 0, 1, 8, 9, 2, 3, ... in turn, so this unit order
	// makes the columns come out in order.
	.macro LOAD_WEIGHTS
	WEIGHTS_OF 0
	WEIGHTS_OF 1
	WEIGHTS_OF 8
	WEIGHTS_OF 9
	WEIGHTS_OF 2
	WEIGHTS_OF 3
	WEIGHTS_OF 10
	WEIGHTS_OF 11
	WEIGHTS_OF 4
	WEIGHTS_OF 5
	WEIGHTS_OF 12
	WEIGHTS_OF 13
	WEIGHTS_OF 6
	WEIGHTS_OF 7
	WEIGHTS_OF 14
	WEIGHTS_OF 15
	.endm

	.section .text.kernel, "ax"
	.globl kernel_entry
	.supervisor
	.p2align 3
kernel_entry:
	ld32 $m1, $m0, $mzero, ARG_WEIGHTS
	ld32 $m2, $m0, $mzero, ARG_K_BLOCKS
	ld32 $m9, $m0, $mzero, ARG_ROWS_EACH
	ld32 $m3, $m0, $mzero, ARG_GROUPS
	setzi $m5, setup
	setzi $m6, first
	put CCCSLOAD, $m1
	shl $m2, $m2, 1
	cmpeq $m9, $m9, 0
	add $m3, $m3, -1
	setzi $m7, next_inner
	setzi $m8, next_final
	.if BATCHED
	ld32 $m4, $m0, $mzero, ARG_BATCHES
	.else
	nop
	.endif
	add $m2, $m2, -2
	// If there may be workers without rows, enter one instruction earlier, at their exit.
	shl $m9, $m9, 2
	nop
	nop
	nop
	nop
	nop
	sub $m6, $m6, $m9
	sub $m7, $m7, $m9
	sub $m8, $m8, $m9
	.if BATCHED
	add $m4, $m4, -1
	.endif
	// The instructions between runall and sync issue in the slots of workers that have exited:
	// up to six clocks of them cost nothing, a taken branch for one.
pass:
	sync 2
	LOAD_WEIGHTS
	runall $m5, $m0, 0
	add $m5, $m6, 0
	brz $m2, final
	add $m9, $m2, -1
inner:
	sync 2
	LOAD_WEIGHTS
	runall $m7, $m0, 0
	brnzdec $m9, inner
final:
	sync 2
	LOAD_WEIGHTS
	runall $m8, $m0, 0
	brnzdec $m3, pass
	.if BATCHED
	ld32 $m3, $m0, $mzero, ARG_GROUPS
	setzi $m5, batch
	add $m3, $m3, -1
	brnzdec $m4, pass
	.endif
	sync 2
	br $m10

// ---------------------------------------------------------------------------------------------
// Workers. Registers kept from launch to launch:
//   m0  out, this worker's rows, current group
//   m1  a, this worker's rows of the current half panel
//   m2  a, this worker's rows of panel 0
//   m3  a_stride
//   m4  out_stride
//   m5  bias of the next pass
//   m6  STRIDES
//   m7  m0 + 64
//   m8  rows - 1, negative for none
//   m9  bytes from this half panel of a to the next
// In a launch: m10:11 paced addresses (partial sums or bias; a; store), a0:1 partial sums in, a2 and
// a3 x of even and odd phases, a4:5 and a6:7 results of even and odd phases.
	.worker

	// Splits the rows and sets the registers above.
	.macro SETUP
	get $m0, WSR
	and $m0, $m0, 7
	ld32 $m9, $mvertex_base, $mzero, ARG_ROWS_EACH
	ld32 $m8, $mvertex_base, $mzero, ARG_ROWS_EXTRA
	mul $m10, $m0, $m9
	min $m11, $m0, $m8
	add $m10, $m10, $m11
	shl $m10, $m10, 6
	cmpult $m11, $m0, $m8
	add $m8, $m9, $m11
	add $m8, $m8, -1
	ld32 $m2, $mvertex_base, $mzero, ARG_A
	add $m2, $m2, $m10
	ld32 $m3, $mvertex_base, $mzero, ARG_A_STRIDE
	ld32 $m0, $mvertex_base, $mzero, ARG_OUT
	add $m0, $m0, $m10
	ld32 $m4, $mvertex_base, $mzero, ARG_OUT_STRIDE
	sub $m0, $m0, $m4
	.if BIAS
	ld32 $m5, $mvertex_base, $mzero, ARG_BIAS
	.endif
	setzi $m6, STRIDES
	.endm

	// First launch of a pass: moves to the next group, primes from bias or zero, loads the first
	// atom of a. Without bias the first load reads partial sums that nobody uses.
	.macro PRIME_FIRST
	.if BIAS
	{ add $m0, $m0, $m4 ; fnop }
	{ tapack $m10:11, $m5, $m2, $m0 ; fnop }
	{ add $m7, $m0, 64 ; fnop }
	{ add $m1, $m2, 32 ; fnop }
	{ add $m9, $m3, -32 ; fnop }
	{ ld64step $a0:1, $mzero, $m5+=, 1 ; fnop }
	{ ld64step $a2:3, $mzero, $m5+=, 1 ; f32sisov2amp $azeros, $azero, $a0:1, 0 }
	{ ld64step $a0:1, $mzero, $m5+=, 1 ; f32sisov2amp $azeros, $azero, $a2:3, 1 }
	{ ld64step $a2:3, $mzero, $m5+=, 1 ; f32sisov2amp $azeros, $azero, $a0:1, 2 }
	{ ld64step $a0:1, $mzero, $m5+=, 1 ; f32sisov2amp $azeros, $azero, $a2:3, 3 }
	{ ld64step $a2:3, $mzero, $m5+=, 1 ; f32sisov2amp $azeros, $azero, $a0:1, 4 }
	{ ld64step $a0:1, $mzero, $m5+=, 1 ; f32sisov2amp $azeros, $azero, $a2:3, 5 }
	{ ld64step $a2:3, $mzero, $m5+=, 1 ; f32sisov2amp $azeros, $azero, $a0:1, 6 }
	{ ld2x64pace $a0:1, $a2:3, $m10:11+=, $m6, 0 ; f32sisov2amp $azeros, $azero, $a2:3, 7 }
	.else
	{ add $m0, $m0, $m4 ; f32sisov2amp $azeros, $azero, $azeros, 0 }
	{ add $m7, $m0, 64 ; f32sisov2amp $azeros, $azero, $azeros, 1 }
	{ tapack $m10:11, $m7, $m2, $m0 ; f32sisov2amp $azeros, $azero, $azeros, 2 }
	{ add $m1, $m2, 32 ; f32sisov2amp $azeros, $azero, $azeros, 3 }
	{ add $m9, $m3, -32 ; f32sisov2amp $azeros, $azero, $azeros, 4 }
	{ nop ; f32sisov2amp $azeros, $azero, $azeros, 5 }
	{ nop ; f32sisov2amp $azeros, $azero, $azeros, 6 }
	{ ld2x64pace $a0:1, $a2:3, $m10:11+=, $m6, 0 ; f32sisov2amp $azeros, $azero, $azeros, 7 }
	.endif
	.endm

	// Later launch: primes from the partial sums in memory, loads the first atom of a.
	.macro PRIME_NEXT
	ld128 $a0:3, $m0, $mzero, 0
	{ ld128 $a4:7, $m0, $mzero, 1 ; f32sisov2amp $azeros, $azero, $a0:1, 0 }
	{ tapack $m10:11, $m7, $m1, $m0 ; f32sisov2amp $azeros, $azero, $a2:3, 1 }
	{ ld128 $a0:3, $m0, $mzero, 2 ; f32sisov2amp $azeros, $azero, $a4:5, 2 }
	{ add $m1, $m1, $m9 ; f32sisov2amp $azeros, $azero, $a6:7, 3 }
	{ ld128 $a4:7, $m0, $mzero, 3 ; f32sisov2amp $azeros, $azero, $a0:1, 4 }
	{ sub $m9, $m3, $m9 ; f32sisov2amp $azeros, $azero, $a2:3, 5 }
	{ nop ; f32sisov2amp $azeros, $azero, $a4:5, 6 }
	{ ld2x64pace $a0:1, $a2:3, $m10:11+=, $m6, 0 ; f32sisov2amp $azeros, $azero, $a6:7, 7 }
	.endm

	// The rows: 12 + 8r bundles, 11 + 16r with relu. `in` is the partial sum operand, `back` the
	// stride code of the load that ends a row of the bias, `finish` whether relu follows. Row 0
	// gives left-overs of priming.
	.macro RELU_OF pair, finish
	.if \finish
	{ nop ; f32v2max \pair, \pair, $azeros }
	.endif
	.endm

	.macro ROWS in, back, finish
	{ ld2x64pace $a0:1, $a6:7, $m10:11+=, $m6, STAY ; f32sisov2amp $azeros, $a2, \in, 0 }
	{ ld2x64pace $a0:1, $a2:3, $m10:11+=, $m6, 0 ; f32sisov2amp $azeros, $a3, \in, 1 }
	{ ld2x64pace $a0:1, $a6:7, $m10:11+=, $m6, STAY ; f32sisov2amp $azeros, $a2, \in, 2 }
	{ ld2x64pace $a0:1, $a2:3, $m10:11+=, $m6, 0 ; f32sisov2amp $azeros, $a3, \in, 3 }
	{ ld2x64pace $a0:1, $a6:7, $m10:11+=, $m6, STAY ; f32sisov2amp $azeros, $a2, \in, 4 }
	{ ld2x64pace $a0:1, $a2:3, $m10:11+=, $m6, NEXT_ROW ; f32sisov2amp $azeros, $a3, \in, 5 }
	{ ld2x64pace $a0:1, $a6:7, $m10:11+=, $m6, STAY + \back ; f32sisov2amp $azeros, $a2, \in, 6 }
	{ ld2x64pace $a0:1, $a2:3, $m10:11+=, $m6, 0 ; f32sisov2amp $azeros, $a3, \in, 7 }
	{ ld2x64pace $a0:1, $a6:7, $m10:11+=, $m6, STAY ; f32sisov2amp $a4:5, $a2, \in, 0 }
	RELU_OF $a4:5, \finish
	{ ld2x64pace $a0:1, $a2:3, $m10:11+=, $m6, 0 ; f32sisov2amp $a6:7, $a3, \in, 1 }
	.if \finish
	{ rpt $m8, 15 ; f32v2max $a6:7, $a6:7, $azeros }
	.else
	{ rpt $m8, 7 ; fnop }
	.endif
	{ ldst64pace $a0:1, $a4:5, $m10:11+=, $m6, 0 ; f32sisov2amp $a4:5, $a2, \in, 2 }
	RELU_OF $a4:5, \finish
	{ ld2xst64pace $a0:3, $a6:7, $m10:11+=, $m6, 0 ; f32sisov2amp $a6:7, $a3, \in, 3 }
	RELU_OF $a6:7, \finish
	{ ldst64pace $a0:1, $a4:5, $m10:11+=, $m6, 0 ; f32sisov2amp $a4:5, $a2, \in, 4 }
	RELU_OF $a4:5, \finish
	{ ld2xst64pace $a0:3, $a6:7, $m10:11+=, $m6, NEXT_ROW ; f32sisov2amp $a6:7, $a3, \in, 5 }
	RELU_OF $a6:7, \finish
	{ ldst64pace $a0:1, $a4:5, $m10:11+=, $m6, \back ; f32sisov2amp $a4:5, $a2, \in, 6 }
	RELU_OF $a4:5, \finish
	{ ld2xst64pace $a0:3, $a6:7, $m10:11+=, $m6, 0 ; f32sisov2amp $a6:7, $a3, \in, 7 }
	RELU_OF $a6:7, \finish
	{ ldst64pace $a0:1, $a4:5, $m10:11+=, $m6, 0 ; f32sisov2amp $a4:5, $a2, \in, 0 }
	RELU_OF $a4:5, \finish
	{ ld2xst64pace $a0:3, $a6:7, $m10:11+=, $m6, 0 ; f32sisov2amp $a6:7, $a3, \in, 1 }
	RELU_OF $a6:7, \finish
	{ st64pace $a4:5, $m10:11+=, $m6, 0 ; f32sisov2amp $a4:5, $azero, $azeros, 2 }
	RELU_OF $a4:5, \finish
	{ st64pace $a6:7, $m10:11+=, $m6, 0 ; f32sisov2amp $a6:7, $azero, $azeros, 3 }
	RELU_OF $a6:7, \finish
	{ st64pace $a4:5, $m10:11+=, $m6, 0 ; f32sisov2amp $a4:5, $azero, $azeros, 4 }
	RELU_OF $a4:5, \finish
	{ st64pace $a6:7, $m10:11+=, $m6, 0 ; f32sisov2amp $a6:7, $azero, $azeros, 5 }
	RELU_OF $a6:7, \finish
	{ st64pace $a4:5, $m10:11+=, $m6, 0 ; f32sisov2amp $a4:5, $azero, $azeros, 6 }
	RELU_OF $a4:5, \finish
	{ st64pace $a6:7, $m10:11+=, $m6, 0 ; f32sisov2amp $a6:7, $azero, $azeros, 7 }
	RELU_OF $a6:7, \finish
	st64pace $a4:5, $m10:11+=, $m6, 0
	st64pace $a6:7, $m10:11+=, $m6, 0
	exitz $mzero
	.endm

	// What precedes the bundles of a launch has an even number of words (padded in front), so that
	// these, above all the repeated ones, are at 0 mod 8.
	.p2align 3
	.if BIAS
	nop
	.endif
setup:
	SETUP
	brneg $m8, no_rows
first:
	PRIME_FIRST
	.if BIAS
	ROWS $a0:1, BIAS_BACK, 0
	.else
	ROWS $azeros, 0, 0
	.endif

	.p2align 3
	brneg $m8, no_rows
	.if RELU == 0
next_final:
	.endif
next_inner:
	PRIME_NEXT
	ROWS $a0:1, 0, 0

	.if BATCHED
	// The first launch of another element of the batch: from the last group of the one before to the
	// place before the first of this one, then as any first launch.
	.p2align 3
batch:
	ld32 $m10, $mvertex_base, $mzero, ARG_A_BATCH
	add $m2, $m2, $m10
	ld32 $m10, $mvertex_base, $mzero, ARG_OUT_BATCH
	add $m0, $m0, $m10
	ld32 $m10, $mvertex_base, $mzero, ARG_GROUPS
	mul $m10, $m10, $m4
	sub $m0, $m0, $m10
	brneg $m8, no_rows
	bri first
	.endif

	.if RELU
	.p2align 3
	brneg $m8, no_rows
next_final:
	PRIME_NEXT
	ROWS $a0:1, 0, 1
	.endif
no_rows:
	exitz $mzero
