// out = act(a * weights + bias) on one tile, f16 operands, by the AMP units.
//
// Defines (the last three 0 by default):
//           PARTIALS_F32  1: f16v4sisoamp, partial sums in f32, two passes of 8 columns a group
//                         0: f16v4hihov4amp, partial sums rounded to f16 after every 16 of K,
//                            one pass of 16 columns a group
//           BIAS          1: partial sums start from the bias; 0: from zero
//           RELU          1: max(x, 0) on the way out
//           OUT_F32       1: out is f32 and holds the partial sums; with PARTIALS_F32 = 1 only,
//                            without BIAS, RELU and BATCHED
//           BATCHED       1: a product for each element of a batch, weights anywhere in blocks of
//                            512 bytes; without BIAS and RELU
//           ACCUMULATE    1: partial sums start from what out holds; for PARTIALS_F32 = 0 and for
//                            OUT_F32, without BIAS and BATCHED
//
// Record:   a, weights, [bias,] [acc if PARTIALS_F32 and not OUT_F32,] out,
//           rows_each, rows_extra, k_blocks >= 1, groups >= 1, a_stride, out_stride,
//           [w_block, w_group, batches >= 1, a_batch, w_batch, out_batch if BATCHED]
//   a        panels of 16 of K, 32 bytes a row, a_stride bytes from panel to panel; if BATCHED
//            a_batch bytes from an element of the batch to the next
//   weights  interleaved memory.
//            BATCHED = 0: the passes one after the other, in each the K blocks: 8 or 16 columns of
//            16 f16. The whole buffer is read once, in order, so CCCSLOAD is written once a call.
//            BATCHED = 1: blocks of 16 columns of 16 f16, w_block bytes from block to block of K,
//            w_group from group to group, w_batch from element to element of the batch. The f32
//            form reads a block in two passes: its first 8 columns, then the others. CCCSLOAD is
//            written for every block, while workers that started it leave: that costs no clock.
//   bias     32 bytes a pass (8 f32 or 16 f16)
//   acc      interleaved memory, rows * 32 bytes, scratch: the partial sums of one pass
//   out      panels of 16 columns, out_stride bytes from panel to panel, if BATCHED out_batch bytes
//            from an element of the batch to the next. 32 bytes a row; interleaved for
//            PARTIALS_F32 = 0, where it holds the partial sums as well. With OUT_F32 the same, but
//            64 bytes a row, of which a pass holds a half
//
// A pass is one worker launch a K block. Worker w takes rows_each + (w < rows_extra) rows (of every
// element of the batch) from w * rows_each + min(w, rows_extra) on; a worker without rows exits.
// Up to six rows, a launch takes as long as one with one row a worker: less cannot be had, since
// all workers share the weights of one block. Four kinds of launch:
//
//   first / next   the partial sums come from bias or zero / from memory; with ACCUMULATE the
//                  first ones do as well
//   inner / final  they go back to memory / the results are narrowed, pass relu and go to out
//
// so k_blocks = 1 is one first-final launch. Narrowing and relu share the final block's launch:
// they fill aux slots between its AMP steps, which is cheaper than a launch of their own. Where
// partial sums and results are the same (f16 without relu, OUT_F32) final blocks are inner ones.
//
// The AMP pipeline: step j = 4 * row + phase takes 4 of K of its row and pushes atom (8 bytes)
// j + 4 of the partial sums, those of the next row; it returns atom j - 4 of the results, those of
// the row before. Hence four priming steps that push row 0, and four draining ones. They also
// replace the whole accumulator state, so nothing relies on accumulators kept between launches.
// x of the draining steps is not 0 but whatever was read: no result depends on it.
//
// Memory rules: one instruction must not touch a memory macro twice. Inner blocks load an atom of
// a, one of the partial sums and store one partial sum together. The store trails the load by 11
// steps, which is 11 atoms, or 19 or 23 with OUT_F32; and atoms an odd distance apart lie in
// different macros of interleaved memory. That is why a result waits one step in a4:5 or a6:7. a,
// bias and the partial sums must lie in different elements. Final blocks load and store in
// different instructions: acc and out may be anywhere.
// Read beyond the end: 24 bytes of a, 56 bytes of the partial sums (120 with OUT_F32), nothing of
// bias; of the weights what the last block of a group has beyond the last column, if BATCHED.
//
// Bundles of a worker with r rows (every main slot of an inner block is in use):
//                 f32 partials    f32, bias    f16 partials    f16, bias    OUT_F32
//   next-inner    13 + 4r         13 + 4r      13 + 4r         13 + 4r      13 + 4r
//   next-final    12 + Fr         12 + Fr      12 + Fr *       12 + Fr *    *
//   first-*       -1              +2           +0              +4           +1   more than next-*
//                 with ACCUMULATE              +2                           +3
//   F = 6 (f32), 8 (f32 and relu, f16 and relu); * the final block is an inner one.
//   A call also spends 21 (f32, OUT_F32) or 19 (f16) bundles, with bias or BATCHED 1 more, on its
//   row split, and 7 for each further element of the batch.
//
// Clocks of a call of BATCHED or OUT_F32: see kernels.ron.

	.ifndef OUT_F32
	.set OUT_F32, 0
	.endif
	.ifndef BATCHED
	.set BATCHED, 0
	.endif
	.ifndef ACCUMULATE
	.set ACCUMULATE, 0
	.endif

	.set WSR, 1
	.set CCCSLOAD, 80

	.set ARG_A, 0
	.set ARG_WEIGHTS, 1
	.set ARG_BIAS, 2
	.set ARG_ACC, 2 + BIAS
	.set ARG_OUT, 2 + BIAS + PARTIALS_F32 - OUT_F32
	.set ARG_ROWS_EACH, ARG_OUT + 1
	.set ARG_ROWS_EXTRA, ARG_ROWS_EACH + 1
	.set ARG_K_BLOCKS, ARG_ROWS_EACH + 2
	.set ARG_GROUPS, ARG_ROWS_EACH + 3
	.set ARG_A_STRIDE, ARG_ROWS_EACH + 4
	.set ARG_OUT_STRIDE, ARG_ROWS_EACH + 5
	.set ARG_W_BLOCK, ARG_ROWS_EACH + 6
	.set ARG_W_GROUP, ARG_ROWS_EACH + 7
	.set ARG_BATCHES, ARG_ROWS_EACH + 8
	.set ARG_A_BATCH, ARG_ROWS_EACH + 9
	.set ARG_W_BATCH, ARG_ROWS_EACH + 10
	.set ARG_OUT_BATCH, ARG_ROWS_EACH + 11

	// Whether final blocks differ from inner ones.
	.set SEPARATE_FINAL, (PARTIALS_F32 - OUT_F32) | RELU

	// Bytes of a row of partial sums.
	.set ROW, 32 + 32 * OUT_F32

	// Pace strides in atoms: code 1 = -3 (bias, back to its first atom), code 2 = +3 (out, over the
	// half row of the other pass), or +5 for partial sums in out, from the last atom of a row of
	// the pass to the first of the next.
	.set STRIDES, 1021 + (3 + 2 * OUT_F32) * 1024
	.set BIAS_BACK, 4               // code 1 for the second load
	.set NEXT_ROW, 2                // code 2 for the store
	.set LOAD_ROW, 8 * OUT_F32      // code 2 for the second load of partial sums
	.set STORE_ROW, 32 * OUT_F32    // code 2 for their store

// ---------------------------------------------------------------------------------------------
// Supervisor.

	// The weights of one column into its AMP unit.
	.macro WEIGHTS_OF unit
	ld128putcs 4 * \unit
	ld128putcs 4 * \unit + 2
	.endm

	// The weights of a block. Both-set AMP forms return units 2p, 2p+1, 8+2p, 9+2p in phase p,
	// so this unit order makes the columns come out in order.
	.macro LOAD_WEIGHTS
	WEIGHTS_OF 0
	WEIGHTS_OF 1
	.if PARTIALS_F32 == 0
	WEIGHTS_OF 8
	WEIGHTS_OF 9
	.endif
	WEIGHTS_OF 2
	WEIGHTS_OF 3
	.if PARTIALS_F32 == 0
	WEIGHTS_OF 10
	WEIGHTS_OF 11
	.endif
	WEIGHTS_OF 4
	WEIGHTS_OF 5
	.if PARTIALS_F32 == 0
	WEIGHTS_OF 12
	WEIGHTS_OF 13
	.endif
	WEIGHTS_OF 6
	WEIGHTS_OF 7
	.if PARTIALS_F32 == 0
	WEIGHTS_OF 14
	WEIGHTS_OF 15
	.endif
	.endm

	.section .text.kernel, "ax"
	.globl kernel_entry
	.supervisor
	.p2align 3
kernel_entry:
	.if BATCHED == 0
	// m0 record, m2 k_blocks - 2, m3 passes left - 1, m4 whether k_blocks = 1, m5 worker entry of
	// this pass's first block, m6 that of the next passes, m7 next-inner, m8 next-final, m9 inner
	// blocks left; m1 and m9 also temporary.
	ld32 $m1, $m0, $mzero, ARG_WEIGHTS
	ld32 $m2, $m0, $mzero, ARG_K_BLOCKS
	ld32 $m9, $m0, $mzero, ARG_ROWS_EACH
	ld32 $m3, $m0, $mzero, ARG_GROUPS
	setzi $m5, setup_inner
	setzi $m6, first_inner
	put CCCSLOAD, $m1
	cmpult $m4, $m2, 2
	cmpeq $m9, $m9, 0
	setzi $m1, setup_final
	setzi $m7, next_inner
	setzi $m8, next_final
	add $m2, $m2, -2
	movnz $m5, $m4, $m1
	// If there may be workers without rows, enter one instruction earlier, at their exit.
	shl $m9, $m9, 2
	setzi $m1, first_final
	.if PARTIALS_F32
	shl $m3, $m3, 1
	.endif
	nop
	nop
	nop
	sub $m7, $m7, $m9
	sub $m8, $m8, $m9
	movnz $m6, $m4, $m1
	add $m3, $m3, -1
	nop
	nop
	nop
	nop
	sub $m6, $m6, $m9
	// The instructions between runall and sync issue in the slots of workers that have exited:
	// up to six clocks of them cost nothing, a taken branch for one.
pass:
	sync 2
	LOAD_WEIGHTS
	runall $m5, $m0, 0
	add $m5, $m6, 0
	brneg $m2, pass_end
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
pass_end:
	brnzdec $m3, pass
	sync 2
	br $m10

	.else
	// m0 record, m1 weights of the next block, m2 k_blocks - 2, m3 w_block, m4 groups left - 1,
	// m5 worker entry, m6 batches left - 1, m7 next-inner, or with k_blocks = 1, when there is no
	// such launch, first_final - FIRST; m8 weights of the next pass, m9 inner blocks left, w_group,
	// temporary.
	//
	// What follows a runall up to the sync issues when workers leave. Their weights are in the
	// CCCS, so CCCSLOAD may move on. All that the next block needs is at hand there: m8 moves on
	// in the first launch of a pass, since a chain of results, six clocks each, would show.
	.set FIRST, first_inner - next_inner
	.set BATCH, batch_inner - next_inner
	.set SETUP_FIRST, setup_inner - first_inner

	// The launches of one pass; CCCSLOAD and m1 are at its first and second block, m5 is the entry,
	// step leads from m8 to the pass after the next.
	.macro PASS step
	sync 2
	add $m8, $m8, \step
	LOAD_WEIGHTS
	runall $m5, $m0, 0
	put CCCSLOAD, $m1
	brneg $m2, pass_end\@
	add $m1, $m1, $m3
	.if SEPARATE_FINAL
	add $m5, $m7, next_final - next_inner
	.else
	add $m5, $m7, 0
	.endif
	brz $m2, final\@
	add $m9, $m2, -1
inner\@:
	sync 2
	LOAD_WEIGHTS
	runall $m7, $m0, 0
	put CCCSLOAD, $m1
	add $m1, $m1, $m3
	brnzdec $m9, inner\@
final\@:
	sync 2
	LOAD_WEIGHTS
	runall $m5, $m0, 0
pass_end\@:
	.endm

	ld32 $m8, $m0, $mzero, ARG_WEIGHTS
	ld32 $m2, $m0, $mzero, ARG_K_BLOCKS
	ld32 $m9, $m0, $mzero, ARG_ROWS_EACH
	ld32 $m3, $m0, $mzero, ARG_W_BLOCK
	ld32 $m4, $m0, $mzero, ARG_GROUPS
	ld32 $m6, $m0, $mzero, ARG_BATCHES
	put CCCSLOAD, $m8
	cmpult $m1, $m2, 2
	cmpeq $m9, $m9, 0
	setzi $m7, next_inner
	setzi $m5, first_final - FIRST
	add $m2, $m2, -2
	add $m4, $m4, -1
	add $m6, $m6, -1
	movnz $m7, $m1, $m5
	// If there may be workers without rows, enter one instruction earlier, at their exit. The
	// first entry of all is the setup, which finds that out itself.
	shl $m9, $m9, 2
	add $m1, $m8, $m3
	nop
	nop
	nop
	add $m5, $m7, FIRST + SETUP_FIRST
	sub $m7, $m7, $m9
	.if PARTIALS_F32 == 0
	ld32 $m9, $m0, $mzero, ARG_W_GROUP
	.endif
pass:
	.if PARTIALS_F32
	PASS 256
	ld32 $m9, $m0, $mzero, ARG_W_GROUP
	put CCCSLOAD, $m8
	add $m1, $m8, $m3
	add $m5, $m7, FIRST
	add $m9, $m9, -256
	.endif
	PASS $m9
	put CCCSLOAD, $m8
	add $m1, $m8, $m3
	add $m5, $m7, FIRST
	.if PARTIALS_F32 == 0
	ld32 $m9, $m0, $mzero, ARG_W_GROUP
	.endif
	brnzdec $m4, pass
	// From the end of this element of the batch to the next.
	ld32 $m4, $m0, $mzero, ARG_GROUPS
	ld32 $m9, $m0, $mzero, ARG_W_GROUP
	ld32 $m5, $m0, $mzero, ARG_W_BATCH
	brz $m6, done
	mul $m1, $m4, $m9
	add $m6, $m6, -1
	add $m8, $m8, $m5
	add $m4, $m4, -1
	add $m5, $m7, BATCH
	sub $m8, $m8, $m1
	put CCCSLOAD, $m8
	add $m1, $m8, $m3
	bri pass
done:
	sync 2
	br $m10
	.endif

// ---------------------------------------------------------------------------------------------
// Workers. Registers kept from launch to launch:
//   m0  partial sums of this worker's rows: f32 in acc, f16 (or OUT_F32) in the group's panel
//       of out
//   m1  a, this worker's rows of the current panel (final blocks: temporary)
//   m2  a, this worker's rows of panel 0
//   m3  a_stride
//   m4  f32: out, this worker's rows, current pass; f16 and OUT_F32: out_stride
//   m5  bias of the next pass; BATCHED: out, this worker's rows of panel 0
//   m6  STRIDES
//   m7  m0 + ROW
//   m8  rows - 1, negative for none
//   m9  f32: bytes from this pass's out to the next pass's; OUT_F32: to this pass's
// In a launch: m10:11 paced addresses (a; partial sums or bias; store), a0:1 x, a2:3 partial sums
// in, a4:5 and a6:7 results.
	.worker

	// Splits the rows and sets the registers above. Ends at an entry's exit for lack of rows.
	.macro SETUP
	get $m0, WSR
	and $m0, $m0, 7
	ld32 $m9, $mvertex_base, $mzero, ARG_ROWS_EACH
	ld32 $m8, $mvertex_base, $mzero, ARG_ROWS_EXTRA
	mul $m10, $m0, $m9
	min $m11, $m0, $m8
	add $m10, $m10, $m11
	shl $m10, $m10, 5
	cmpult $m11, $m0, $m8
	add $m8, $m9, $m11
	add $m8, $m8, -1
	ld32 $m2, $mvertex_base, $mzero, ARG_A
	add $m2, $m2, $m10
	ld32 $m3, $mvertex_base, $mzero, ARG_A_STRIDE
	.if OUT_F32
	shl $m10, $m10, 1
	ld32 $m0, $mvertex_base, $mzero, ARG_OUT
	add $m0, $m0, $m10
	ld32 $m4, $mvertex_base, $mzero, ARG_OUT_STRIDE
	// The first step, that to panel 0, cancels against what m0 lacks.
	add $m9, $m4, -32
	sub $m0, $m0, $m9
	.elseif PARTIALS_F32
	ld32 $m0, $mvertex_base, $mzero, ARG_ACC
	add $m0, $m0, $m10
	add $m7, $m0, ROW
	ld32 $m4, $mvertex_base, $mzero, ARG_OUT
	add $m4, $m4, $m10
	.if BATCHED
	add $m5, $m4, 0
	.endif
	setzi $m9, 16
	.else
	ld32 $m0, $mvertex_base, $mzero, ARG_OUT
	add $m0, $m0, $m10
	.if BATCHED
	add $m5, $m0, 0
	.endif
	ld32 $m4, $mvertex_base, $mzero, ARG_OUT_STRIDE
	sub $m0, $m0, $m4
	.endif
	.if BIAS
	ld32 $m5, $mvertex_base, $mzero, ARG_BIAS
	.endif
	setzi $m6, STRIDES
	.endm

	// From an element of the batch to the next. m9 needs no care: a batch has an even number of
	// passes of 8 columns.
	.macro NEXT_BATCH
	ld32 $m10, $mvertex_base, $mzero, ARG_A_BATCH
	ld32 $m11, $mvertex_base, $mzero, ARG_OUT_BATCH
	add $m2, $m2, $m10
	add $m5, $m5, $m11
	.if PARTIALS_F32
	add $m4, $m5, 0
	.else
	sub $m0, $m5, $m4
	.endif
	.endm

	// First block: moves to the next pass, primes from bias, zero or what out holds, loads atom 0 of
	// a. From zero the second load reads partial sums that nobody uses. `store` is where results go.
	.macro PRIME_FIRST amp, store
	.if ACCUMULATE
	.if OUT_F32
	{ add $m0, $m0, $m9 ; fnop }
	{ sub $m9, $m4, $m9 ; fnop }
	.else
	{ add $m0, $m0, $m4 ; fnop }
	.endif
	{ add $m7, $m0, ROW ; fnop }
	{ ld128 $a0:3, $m0, $mzero, 0 ; fnop }
	{ ld128 $a4:7, $m0, $mzero, 1 ; \amp $azeros, $azeros, $a0:1, 0 }
	{ tapack $m10:11, $m2, $m7, \store ; \amp $azeros, $azeros, $a2:3, 1 }
	{ ld2x64pace $a0:1, $a2:3, $m10:11+=, $m6, 0 ; \amp $azeros, $azeros, $a4:5, 2 }
	{ add $m1, $m2, $m3 ; \amp $azeros, $azeros, $a6:7, 3 }
	.else
	.if PARTIALS_F32 == 0
	.if BIAS
	{ add $m0, $m0, $m4 ; fnop }
	.else
	{ add $m0, $m0, $m4 ; \amp $azeros, $azeros, $azeros, 0 }
	.endif
	.endif
	.if BIAS
	{ tapack $m10:11, $m2, $m5, \store ; fnop }
	.if PARTIALS_F32 == 0
	{ add $m7, $m0, ROW ; fnop }
	.endif
	{ add $m1, $m2, $m3 ; fnop }
	{ ld64step $a0:1, $mzero, $m5+=, 1 ; fnop }
	{ ld64step $a2:3, $mzero, $m5+=, 1 ; \amp $azeros, $azeros, $a0:1, 0 }
	{ ld64step $a0:1, $mzero, $m5+=, 1 ; \amp $azeros, $azeros, $a2:3, 1 }
	{ ld64step $a2:3, $mzero, $m5+=, 1 ; \amp $azeros, $azeros, $a0:1, 2 }
	{ ld2x64pace $a0:1, $a2:3, $m10:11+=, $m6, 0 ; \amp $azeros, $azeros, $a2:3, 3 }
	.else
	.if OUT_F32
	{ add $m0, $m0, $m9 ; \amp $azeros, $azeros, $azeros, 0 }
	{ sub $m9, $m4, $m9 ; fnop }
	{ add $m7, $m0, ROW ; fnop }
	.elseif PARTIALS_F32
	{ nop ; \amp $azeros, $azeros, $azeros, 0 }
	.else
	{ add $m7, $m0, ROW ; fnop }
	.endif
	{ tapack $m10:11, $m2, $m7, \store ; \amp $azeros, $azeros, $azeros, 1 }
	{ add $m1, $m2, $m3 ; \amp $azeros, $azeros, $azeros, 2 }
	{ ld2x64pace $a0:1, $a2:3, $m10:11+=, $m6, 0 ; \amp $azeros, $azeros, $azeros, 3 }
	.endif
	.endif
	.endm

	// Later block: primes from the partial sums in memory, loads atom 0 of a.
	.macro PRIME_NEXT amp, store
	ld128 $a0:3, $m0, $mzero, 0
	{ ld128 $a4:7, $m0, $mzero, 1 ; \amp $azeros, $azeros, $a0:1, 0 }
	{ tapack $m10:11, $m1, $m7, \store ; \amp $azeros, $azeros, $a2:3, 1 }
	{ ld2x64pace $a0:1, $a2:3, $m10:11+=, $m6, 0 ; \amp $azeros, $azeros, $a4:5, 2 }
	{ add $m1, $m1, $m3 ; \amp $azeros, $azeros, $a6:7, 3 }
	.endm

	// Steps 0 to 3, whose results are left-overs of priming. `in` is the partial sum operand;
	// `back` the stride code of the load for phase 3, which ends a row of the bias.
	.macro ROW_0 amp, in, back
	{ ld2x64pace $a0:1, $a2:3, $m10:11+=, $m6, 0 ; \amp $azeros, $a0:1, \in, 0 }
	{ ld2x64pace $a0:1, $a2:3, $m10:11+=, $m6, 0 ; \amp $azeros, $a0:1, \in, 1 }
	{ ld2x64pace $a0:1, $a2:3, $m10:11+=, $m6, \back ; \amp $azeros, $a0:1, \in, 2 }
	{ ld2x64pace $a0:1, $a2:3, $m10:11+=, $m6, 0 ; \amp $azeros, $a0:1, \in, 3 }
	.endm

	// Rows of an inner block, results back to the partial sums: 8 + 4r bundles.
	.macro INNER amp, in, back
	ROW_0 \amp, \in, \back
	{ ld2x64pace $a0:1, $a2:3, $m10:11+=, $m6, 0 ; \amp $a4:5, $a0:1, \in, 0 }
	{ ld2x64pace $a0:1, $a2:3, $m10:11+=, $m6, 0 ; \amp $a6:7, $a0:1, \in, 1 }
	{ rpt $m8, 3 ; fnop }
	{ ld2xst64pace $a0:3, $a4:5, $m10:11+=, $m6, \back ; \amp $a4:5, $a0:1, \in, 2 }
	{ ld2xst64pace $a0:3, $a6:7, $m10:11+=, $m6, 0 ; \amp $a6:7, $a0:1, \in, 3 }
	{ ld2xst64pace $a0:3, $a4:5, $m10:11+=, $m6, 0 ; \amp $a4:5, $a0:1, \in, 0 }
	{ ld2xst64pace $a0:3, $a6:7, $m10:11+=, $m6, STORE_ROW ; \amp $a6:7, $a0:1, \in, 1 }
	{ st64pace $a4:5, $m10:11+=, $m6, 0 ; \amp $a4:5, $azeros, $azeros, 2 }
	{ st64pace $a6:7, $m10:11+=, $m6, 0 ; \amp $a6:7, $azeros, $azeros, 3 }
	st64pace $a4:5, $m10:11+=, $m6, 0
	st64pace $a6:7, $m10:11+=, $m6, 0
	exitz $mzero
	.endm

	// Rows of a final block with f32 partial sums: 7 + 6r bundles, 7 + 8r with relu. Two steps
	// give four f32 in a4:7, narrowed into a6:7 and stored when the next but one step replaces
	// them. The drain has room to step out to the next pass: +16, then out_stride - 16, and so on.
	.macro FINAL_F32 amp, in, back
	ROW_0 \amp, \in, \back
	{ ld2x64pace $a0:1, $a2:3, $m10:11+=, $m6, 0 ; \amp $a4:5, $a0:1, \in, 0 }
	{ nop ; \amp $a6:7, $a0:1, \in, 1 }
	.if RELU
	{ rpt $m8, 7 ; fnop }
	{ nop ; f32v4tof16 $a6:7, $a4:7 }
	{ ld2x64pace $a0:1, $a2:3, $m10:11+=, $m6, 0 ; f16v4max $a6:7, $a6:7, $azeros }
	.else
	{ rpt $m8, 5 ; fnop }
	{ ld2x64pace $a0:1, $a2:3, $m10:11+=, $m6, 0 ; f32v4tof16 $a6:7, $a4:7 }
	.endif
	{ ld2x64pace $a0:1, $a2:3, $m10:11+=, $m6, \back ; \amp $a4:5, $a0:1, \in, 2 }
	{ st64pace $a6:7, $m10:11+=, $m6, 0 ; \amp $a6:7, $a0:1, \in, 3 }
	.if RELU
	{ nop ; f32v4tof16 $a6:7, $a4:7 }
	{ ld2x64pace $a0:1, $a2:3, $m10:11+=, $m6, 0 ; f16v4max $a6:7, $a6:7, $azeros }
	.else
	{ ld2x64pace $a0:1, $a2:3, $m10:11+=, $m6, 0 ; f32v4tof16 $a6:7, $a4:7 }
	.endif
	{ ld2x64pace $a0:1, $a2:3, $m10:11+=, $m6, 0 ; \amp $a4:5, $a0:1, \in, 0 }
	{ st64pace $a6:7, $m10:11+=, $m6, NEXT_ROW ; \amp $a6:7, $a0:1, \in, 1 }
	{ add $m4, $m4, $m9 ; f32v4tof16 $a6:7, $a4:7 }
	.if RELU
	{ nop ; f16v4max $a6:7, $a6:7, $azeros }
	.endif
	{ ld32 $m1, $mvertex_base, $mzero, ARG_OUT_STRIDE ; \amp $a4:5, $azeros, $azeros, 2 }
	{ st64pace $a6:7, $m10:11+=, $m6, 0 ; \amp $a6:7, $azeros, $azeros, 3 }
	{ sub $m9, $m1, $m9 ; f32v4tof16 $a6:7, $a4:7 }
	.if RELU
	{ nop ; f16v4max $a6:7, $a6:7, $azeros }
	.endif
	st64pace $a6:7, $m10:11+=, $m6, NEXT_ROW
	exitz $mzero
	.endm

	// Rows of a final block with f16 partial sums and relu: 7 + 8r bundles.
	.macro FINAL_F16 amp, in, back
	ROW_0 \amp, \in, \back
	{ ld2x64pace $a0:1, $a2:3, $m10:11+=, $m6, 0 ; \amp $a4:5, $a0:1, \in, 0 }
	{ nop ; f16v4max $a4:5, $a4:5, $azeros }
	{ rpt $m8, 7 ; fnop }
	{ ld2x64pace $a0:1, $a2:3, $m10:11+=, $m6, 0 ; \amp $a6:7, $a0:1, \in, 1 }
	{ st64pace $a4:5, $m10:11+=, $m6, 0 ; f16v4max $a6:7, $a6:7, $azeros }
	{ ld2x64pace $a0:1, $a2:3, $m10:11+=, $m6, \back ; \amp $a4:5, $a0:1, \in, 2 }
	{ st64pace $a6:7, $m10:11+=, $m6, 0 ; f16v4max $a4:5, $a4:5, $azeros }
	{ ld2x64pace $a0:1, $a2:3, $m10:11+=, $m6, 0 ; \amp $a6:7, $a0:1, \in, 3 }
	{ st64pace $a4:5, $m10:11+=, $m6, 0 ; f16v4max $a6:7, $a6:7, $azeros }
	{ ld2x64pace $a0:1, $a2:3, $m10:11+=, $m6, 0 ; \amp $a4:5, $a0:1, \in, 0 }
	{ st64pace $a6:7, $m10:11+=, $m6, 0 ; f16v4max $a4:5, $a4:5, $azeros }
	{ nop ; \amp $a6:7, $azeros, $azeros, 1 }
	{ st64pace $a4:5, $m10:11+=, $m6, 0 ; f16v4max $a6:7, $a6:7, $azeros }
	{ nop ; \amp $a4:5, $azeros, $azeros, 2 }
	{ st64pace $a6:7, $m10:11+=, $m6, 0 ; f16v4max $a4:5, $a4:5, $azeros }
	{ nop ; \amp $a6:7, $azeros, $azeros, 3 }
	{ st64pace $a4:5, $m10:11+=, $m6, 0 ; f16v4max $a6:7, $a6:7, $azeros }
	st64pace $a6:7, $m10:11+=, $m6, 0
	exitz $mzero
	.endm

	.macro FINAL amp, in, back
	.if PARTIALS_F32
	FINAL_F32 \amp, \in, \back
	.else
	FINAL_F16 \amp, \in, \back
	.endif
	.endm

	// Every launch kind. What precedes the bundles of a first block has an even number of words
	// (padded in front), so that these, above all the repeated ones, are at 0 mod 8. Setup, next
	// batch and first block lie alike for inner and for final blocks: the supervisor of BATCHED
	// relies on that.
	.macro WORKERS amp, start, back, store
	.p2align 3
	.if BIAS
	nop
	.endif
	.if SEPARATE_FINAL == 0
setup_final:
	.endif
setup_inner:
	SETUP
	.if BATCHED
	brpos $m8, first_inner
	brneg $m8, no_rows
batch_inner:
	NEXT_BATCH
	.endif
	brneg $m8, no_rows
	.if SEPARATE_FINAL == 0
first_final:
	.endif
first_inner:
	PRIME_FIRST \amp, $m0
	INNER \amp, \start, \back

	.p2align 3
	brneg $m8, no_rows
	.if SEPARATE_FINAL == 0
next_final:
	.endif
next_inner:
	PRIME_NEXT \amp, $m0
	INNER \amp, $a2:3, LOAD_ROW

	.if SEPARATE_FINAL
	.p2align 3
	.if BIAS
	nop
	.endif
setup_final:
	SETUP
	.if BATCHED
	brpos $m8, first_final
	brneg $m8, no_rows
	NEXT_BATCH
	.endif
	brneg $m8, no_rows
first_final:
	PRIME_FIRST \amp, \store
	FINAL \amp, \start, \back

	.p2align 3
	brneg $m8, no_rows
next_final:
	PRIME_NEXT \amp, \store
	FINAL \amp, $a2:3, 0
	.endif
no_rows:
	exitz $mzero
	.endm

	.if ACCUMULATE
	.if PARTIALS_F32
	WORKERS f16v4sisoamp, $a2:3, LOAD_ROW, $m0
	.else
	WORKERS f16v4hihov4amp, $a2:3, 0, $m0
	.endif
	.elseif PARTIALS_F32
	.if BIAS
	WORKERS f16v4sisoamp, $a2:3, BIAS_BACK, $m4
	.else
	WORKERS f16v4sisoamp, $azeros, LOAD_ROW, $m4
	.endif
	.else
	.if BIAS
	WORKERS f16v4hihov4amp, $a2:3, BIAS_BACK, $m0
	.else
	WORKERS f16v4hihov4amp, $azeros, 0, $m0
	.endif
	.endif
