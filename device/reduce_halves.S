// out = act(sum of partials + b): f16 partial sums and addend to f16, in pairs of atoms: 16 bytes,
// 8 elements. The sums are f32, rounded to f16 once.
//
// Defines:  ADDENDS  0 or 1 (b)
//           RELU     1: max(x, 0) on the way out
//
// Record:   partials, [b,] out, pairs_each, pairs_extra, parts >= 1, part_stride
//   partials  interleaved memory: part p at p * part_stride bytes, a multiple of 16
//   b, out    anywhere; out may be b
//
// Sums are f32, rounded after each term, from +0 on in the order of the parts, then b.
//
// Worker w takes pairs_each + (w < pairs_extra) pairs from w * pairs_each + min(w, pairs_extra) on.
// The sums are in accumulators 0, 2, .., 14: f16v8acc adds 16 bytes in the bundle that loads the
// next 16. f32v2gina takes two of them out and moves the others down by two; what moves in behind
// is 0, and the four at the start have made everything 0.
//
// Memory rules: none but the class of partials. One access an instruction. Read beyond the end: 16
// bytes of partials.
//
// Bundles of a worker with n pairs (the aux slots are the bound but for the parts):
//            relu = 0                  relu = 1
//   no b     n * (parts + 7)           n * (parts + 8)
//   b        n * (parts + 10)          n * (parts + 11)
// and a constant, see kernels.ron.

	.set WSR, 1

	.set ARG_PARTIALS, 0
	.set ARG_B, 1
	.set ARG_OUT, 1 + ADDENDS
	.set ARG_PAIRS_EACH, 2 + ADDENDS
	.set ARG_PAIRS_EXTRA, 3 + ADDENDS
	.set ARG_PARTS, 4 + ADDENDS
	.set ARG_PART_STRIDE, 5 + ADDENDS

	.section .text.kernel, "ax"
	.globl kernel_entry
	.supervisor
	.p2align 3
kernel_entry:
	setzi $m1, worker
	runall $m1, $m0, 0
	sync 2
	br $m10

// m0 part 0 of the next pair to load, m1 the next part to load of the pair in work, m2 part stride
// in 16 bytes, m3 part stride - 16, m4 pairs left - 1, m5 parts - 1, m6 out, m7 b.
// a0:3 a part; a4:7 b, then sums; a4:5 the second atom of the last pair until it is stored.
	.worker

	// A pair, at 0 mod 8. `head` finishes and `store` stores the one before; `branch` ends it. The
	// first part of the pair is in a0:3 on entry, that of the next on exit.
	.macro PAIR head, store, branch
	{ rpt $m5, 0 ; \head }
	{ ld128step $a0:3, $mzero, $m1+=, $m2 ; f16v8acc $a0:3 }
	{ \store ; f16v8acc $a0:3 }
	.if ADDENDS
	{ ld64step $a4:5, $mzero, $m7+=, 1 ; fnop }
	{ ld64step $a6:7, $mzero, $m7+=, 1 ; fnop }
	{ nop ; f16v8acc $a4:7 }
	.endif
	{ ld128step $a0:3, $mzero, $m0+=, 1 ; f32v2gina $a4:5, $azeros, 0 }
	{ add $m1, $m0, $m3 ; f32v2gina $a6:7, $azeros, 0 }
	{ nop ; f32v4tof16 $a4:5, $a4:7 }
	.if RELU
	{ nop ; f16v4max $a4:5, $a4:5, $azeros }
	.endif
	{ st64step $a4:5, $mzero, $m6+=, 1 ; f32v2gina $a4:5, $azeros, 0 }
	{ nop ; f32v2gina $a6:7, $azeros, 0 }
	{ \branch ; f32v4tof16 $a4:5, $a4:7 }
	.endm

	// All pairs of a worker; `finish` is what is left to do for a pair.
	.macro PAIRS finish
	PAIR fnop, nop, "brz $m4, last"
	{ add $m4, $m4, -1 ; fnop }
loop:
	PAIR "\finish", "st64step $a4:5, $mzero, $m6+=, 1", "brnzdec $m4, loop"
last:
	{ nop ; \finish }
	st64 $a4:5, $m6, $mzero, 0
no_pairs:
	exitz $mzero
	.endm

	.p2align 3
worker:
	get $m0, WSR
	and $m0, $m0, 7
	ld32 $m4, $mvertex_base, $mzero, ARG_PAIRS_EACH
	ld32 $m5, $mvertex_base, $mzero, ARG_PAIRS_EXTRA
	mul $m3, $m0, $m4
	min $m6, $m0, $m5
	add $m3, $m3, $m6
	cmpult $m6, $m0, $m5
	add $m4, $m4, $m6
	brz $m4, no_pairs
	shl $m3, $m3, 4
	ld32 $m0, $mvertex_base, $mzero, ARG_PARTIALS
	add $m0, $m0, $m3
	.if ADDENDS
	ld32 $m7, $mvertex_base, $mzero, ARG_B
	add $m7, $m7, $m3
	.endif
	ld32 $m6, $mvertex_base, $mzero, ARG_OUT
	add $m6, $m6, $m3
	ld32 $m5, $mvertex_base, $mzero, ARG_PARTS
	ld32 $m3, $mvertex_base, $mzero, ARG_PART_STRIDE
	.p2align 3
	{ shr $m2, $m3, 4 ; f32v2gina $azeros, $azeros, 0 }
	{ add $m3, $m3, -16 ; f32v2gina $azeros, $azeros, 0 }
	{ add $m4, $m4, -1 ; f32v2gina $azeros, $azeros, 0 }
	{ add $m5, $m5, -1 ; f32v2gina $azeros, $azeros, 0 }
	{ ld128step $a0:3, $mzero, $m0+=, 1 ; f32v2gina $azeros, $azeros, 0 }
	{ add $m1, $m0, $m3 ; f32v2gina $azeros, $azeros, 0 }
	{ nop ; f32v2gina $azeros, $azeros, 0 }
	{ nop ; f32v2gina $azeros, $azeros, 0 }
	.if RELU
	PAIRS "f16v4max $a4:5, $a4:5, $azeros"
	.else
	PAIRS fnop
	.endif
