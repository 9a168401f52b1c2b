// out = f(x), out = x in another type, or out = a / b, in atoms.
//
// Define OP, one of the names below. An atom is 8 bytes of x and out: 4 f16 or 2 f32; for casts it is
// 8 bytes of the f16 side, 16 of the other.
//
// Record: x (or a, b), out, atoms_each, atoms_extra. Worker w takes atoms_each + (w < atoms_extra)
// atoms from w * atoms_each + min(w, atoms_extra) on.
//
// Memory rules: none. One access an instruction; buffers may lie anywhere, and out may be x, a or b
// unless the types differ. Read beyond the end: 8 bytes of x, a and b where OP >= RSQRT_F16, 16 for
// GELU_TANH_F16, nothing for the others and for casts.
//
// Slots of a worker with n atoms; the float unit limits all but casts (loads and stores):
//   TANH_F16 20 + 2n            SIGMOID_F16, EXP_F16 20 + 4n   (f16v2exp of two +0: one slot, not two)
//   TANH_F32, SIGMOID_F32 20 + 10n    EXP_F32 20 + 6n          RSQRT_F32 20 + 8n
//   RSQRT_F16 20 + 19n          DIV_F16 22 + 17n               DIV_F32 25 + 7n
//   GELU_TANH_F16 28 + 8n       GELU_TANH_F32 22 + 15n         casts 19 + 3n
//   GELU_ERF_F16 21 + 40n       GELU_ERF_F32 21 + 26n
// Padding is data like any other: exp and sigmoid make it 1 and 0.5, rsqrt 65504, division NaN.
//
// Values: transcendental instructions round the exact value once. A NaN gives NaN; an f16 result
// that is infinite or too large is the largest finite value.
//   GELU_TANH  x * sigmoid(sqrt(8 / pi) * (x + 0.044715 x^3)), the same function without the
//              cancellation of 1 + tanh. f16: x^3 is rounded twice, the argument once; at most 1.5 ulp
//              of the larger of the result and 1/8, 10 ulp of the result itself (at x < -3); -inf
//              gives NaN
//   GELU_ERF   max(x, 0) - |x| Phi(-|x|), where log2(Phi(-t)) is a polynomial in f32 of degree 5
//              (0.15 ulp of f16, 0.81 with all roundings) or 8 (2^-22 or 1e-8); beyond the fit it falls to -inf.
//              f32: an infinity gives NaN

	.set TANH_F16, 0
	.set SIGMOID_F16, 1
	.set EXP_F16, 2
	.set TANH_F32, 3
	.set SIGMOID_F32, 4
	.set EXP_F32, 5
	.set RSQRT_F32, 6
	.set F16_TO_F32, 7
	.set F32_TO_F16, 8
	.set RSQRT_F16, 9
	.set DIV_F16, 10
	.set DIV_F32, 11
	.set GELU_TANH_F16, 12
	.set GELU_TANH_F32, 13
	.set GELU_ERF_F16, 14
	.set GELU_ERF_F32, 15

	.set WSR, 1
	.set TAS, 8

	.if OP == DIV_F16 || OP == DIV_F32
	.set ARG_B, 1
	.set ARG_OUT, 2
	.else
	.set ARG_OUT, 1
	.endif
	.set ARG_X, 0
	.set ARG_ATOMS_EACH, ARG_OUT + 1
	.set ARG_ATOMS_EXTRA, ARG_OUT + 2

	.section .text.kernel, "ax"
	.globl kernel_entry
	.supervisor
	.p2align 3
kernel_entry:
	setzi $m1, worker
	runall $m1, $m0, 0
	sync 2
	br $m10

// m0 x, next atom; m1 b, next atom; m2 out, next atom; m4 atoms; m5 coefficients; m3 temporary
	.worker
	.p2align 3
worker:
	{ get $m0, WSR ; fnop }
	{ and $m0, $m0, 7 ; fnop }
	{ ld32 $m4, $mvertex_base, $mzero, ARG_ATOMS_EACH ; fnop }
	{ ld32 $m2, $mvertex_base, $mzero, ARG_ATOMS_EXTRA ; fnop }
	{ mul $m3, $m0, $m4 ; fnop }
	{ min $m5, $m0, $m2 ; fnop }
	{ add $m3, $m3, $m5 ; fnop }
	{ cmpult $m5, $m0, $m2 ; fnop }
	{ add $m4, $m4, $m5 ; fnop }
	{ brz $m4, no_atoms ; fnop }
	{ ld32 $m0, $mvertex_base, $mzero, ARG_X ; fnop }
	{ ld32 $m2, $mvertex_base, $mzero, ARG_OUT ; fnop }
	{ shl $m3, $m3, 3 ; fnop }
	{ add $m0, $m0, $m3 ; fnop }
	{ add $m2, $m2, $m3 ; fnop }

	// One instruction a word: 4 bundles before and after the loop, 2 in it.
	.macro WORDWISE op
	{ add $m4, $m4, -1 ; fnop }
	{ ld64step $a0:1, $mzero, $m0+=, 1 ; fnop }
	{ rpt $m4, 1 ; \op $a4, $a0 }
	{ ld64step $a0:1, $mzero, $m0+=, 1 ; \op $a5, $a1 }
	{ st64step $a4:5, $mzero, $m2+=, 1 ; \op $a4, $a0 }
	{ nop ; \op $a5, $a1 }
	{ st64step $a4:5, $mzero, $m2+=, 1 ; fnop }
	.endm
	.if OP == TANH_F16
	WORDWISE f16v2tanh
	.endif
	.if OP == SIGMOID_F16
	WORDWISE f16v2sigm
	.endif
	.if OP == EXP_F16
	WORDWISE f16v2exp
	.endif
	.if OP == TANH_F32
	WORDWISE f32tanh
	.endif
	.if OP == SIGMOID_F32
	WORDWISE f32sigm
	.endif
	.if OP == EXP_F32
	WORDWISE f32exp
	.endif
	.if OP == RSQRT_F32
	WORDWISE f32oorx
	.endif

	.if OP == F16_TO_F32
	{ add $m2, $m2, $m3 ; fnop }
	{ add $m4, $m4, -1 ; fnop }
	{ ld64step $a0:1, $mzero, $m0+=, 1 ; fnop }
	{ rpt $m4, 2 ; f16v2tof32 $a2:3, $a0 }
	{ st64step $a2:3, $mzero, $m2+=, 1 ; f16v2tof32 $a4:5, $a1 }
	{ ld64step $a0:1, $mzero, $m0+=, 1 ; fnop }
	{ st64step $a4:5, $mzero, $m2+=, 1 ; f16v2tof32 $a2:3, $a0 }
	{ st64step $a2:3, $mzero, $m2+=, 1 ; f16v2tof32 $a4:5, $a1 }
	{ st64step $a4:5, $mzero, $m2+=, 1 ; fnop }
	.endif
	.if OP == F32_TO_F16
	{ add $m0, $m0, $m3 ; fnop }
	{ add $m4, $m4, -1 ; fnop }
	{ ld64step $a0:1, $mzero, $m0+=, 1 ; fnop }
	{ ld64step $a2:3, $mzero, $m0+=, 1 ; fnop }
	{ rpt $m4, 2 ; f32v4tof16 $a4:5, $a0:3 }
	{ ld64step $a0:1, $mzero, $m0+=, 1 ; fnop }
	{ ld64step $a2:3, $mzero, $m0+=, 1 ; fnop }
	{ st64step $a4:5, $mzero, $m2+=, 1 ; f32v4tof16 $a4:5, $a0:3 }
	{ st64step $a4:5, $mzero, $m2+=, 1 ; fnop }
	.endif

	// In all loops below the first operations on an atom share the last bundle with the store of the
	// one before.
	.if OP == RSQRT_F16
	{ ld64step $a0:1, $mzero, $m0+=, 1 ; fnop }
	{ nop ; f16v2tof32 $a4:5, $a0 }
	{ rpt $m4, 6 ; fnop }
	{ nop ; f16v2tof32 $a6:7, $a1 }
	{ ld64step $a0:1, $mzero, $m0+=, 1 ; f32oorx $a4, $a4 }
	{ nop ; f32oorx $a5, $a5 }
	{ nop ; f32oorx $a6, $a6 }
	{ nop ; f32oorx $a7, $a7 }
	{ nop ; f32v4tof16 $a2:3, $a4:7 }
	{ st64step $a2:3, $mzero, $m2+=, 1 ; f16v2tof32 $a4:5, $a0 }
	.endif

	.if OP == DIV_F16
	{ ld32 $m1, $mvertex_base, $mzero, ARG_B ; fnop }
	{ add $m1, $m1, $m3 ; fnop }
	{ ld64step $a0:1, $mzero, $m0+=, 1 ; fnop }
	{ ld64step $a2:3, $mzero, $m1+=, 1 ; f16v2tof32 $a4:5, $a0 }
	{ rpt $m4, 8 ; fnop }
	{ nop ; f16v2tof32 $a6:7, $a2 }
	{ nop ; f32div $a4, $a4, $a6 }
	{ nop ; f32div $a5, $a5, $a7 }
	{ nop ; f16v2tof32 $a6:7, $a3 }
	{ nop ; f16v2tof32 $a2:3, $a1 }
	{ nop ; f32div $a6, $a2, $a6 }
	{ ld64step $a0:1, $mzero, $m0+=, 1 ; f32div $a7, $a3, $a7 }
	{ ld64step $a2:3, $mzero, $m1+=, 1 ; f32v4tof16 $a4:5, $a4:7 }
	{ st64step $a4:5, $mzero, $m2+=, 1 ; f16v2tof32 $a4:5, $a0 }
	.endif

	.if OP == DIV_F32
	{ ld32 $m1, $mvertex_base, $mzero, ARG_B ; fnop }
	{ add $m1, $m1, $m3 ; fnop }
	{ ld64step $a0:1, $mzero, $m0+=, 1 ; fnop }
	{ ld64step $a2:3, $mzero, $m1+=, 1 ; fnop }
	{ nop ; f32div $a4, $a0, $a2 }
	{ rpt $m4, 2 ; fnop }
	{ ld64step $a0:1, $mzero, $m0+=, 1 ; f32div $a5, $a1, $a3 }
	{ ld64step $a2:3, $mzero, $m1+=, 1 ; fnop }
	{ st64step $a4:5, $mzero, $m2+=, 1 ; f32div $a4, $a0, $a2 }
	.endif

	// The argument comes out of the mix of the next atom: a0:1 is the newer atom, a6:7 the older.
	.if OP == GELU_TANH_F16
	{ setzi $m5, coefficients ; fnop }
	{ ld32 $a2, $m5, $mzero, 0 ; fnop }
	{ ld64 $a0:1, $m0, $mzero, 0 ; uput TAS, $a2 }
	{ nop ; f16v4mul $a2:3, $a0:1, $a0:1 }
	{ nop ; f16v4mul $a2:3, $a2:3, $a0:1 }
	{ ld64step $a6:7, $mzero, $m0+=, 1 ; f16v4mix $a4:5, $a0:1, $a2:3 }
	{ ld64 $a0:1, $m0, $mzero, 0 ; fnop }
	{ nop ; f16v4mul $a2:3, $a0:1, $a0:1 }
	{ nop ; f16v4mul $a2:3, $a2:3, $a0:1 }
	{ nop ; f16v4mix $a4:5, $a0:1, $a2:3 }
	{ rpt $m4, 5 ; fnop }
	{ ld64 $a0:1, $m0, $mzero, 1 ; f16v2sigm $a4, $a4 }
	{ nop ; f16v2sigm $a5, $a5 }
	{ ld64step $a6:7, $mzero, $m0+=, 1 ; f16v4mul $a4:5, $a4:5, $a6:7 }
	{ st64step $a4:5, $mzero, $m2+=, 1 ; f16v4mul $a2:3, $a0:1, $a0:1 }
	{ nop ; f16v4mul $a2:3, $a2:3, $a0:1 }
	{ nop ; f16v4mix $a4:5, $a0:1, $a2:3 }
	.endif

	.if OP == GELU_TANH_F32
	{ setzi $m5, coefficients ; fnop }
	{ ld64 $a4:5, $m5, $mzero, 0 ; fnop }
	{ ld64step $a0:1, $mzero, $m0+=, 1 ; fnop }
	{ nop ; f32v2mul $a2:3, $a0:1, $a0:1 }
	{ rpt $m4, 6 ; fnop }
	{ nop ; f32v2mul $a2:3, $a4:B, $a2:3 }
	{ nop ; f32v2add $a2:3, $a5:B, $a2:3 }
	{ nop ; f32v2mul $a2:3, $a2:3, $a0:1 }
	{ nop ; f32sigm $a6, $a2 }
	{ nop ; f32sigm $a7, $a3 }
	{ ld64step $a0:1, $mzero, $m0+=, 1 ; f32v2mul $a6:7, $a6:7, $a0:1 }
	{ st64step $a6:7, $mzero, $m2+=, 1 ; f32v2mul $a2:3, $a0:1, $a0:1 }
	.endif

	// p = p * t + coefficient k, which goes through register c.
	.macro HORNER p, t, c, k
	{ ld32 \c, $m5, $mzero, \k ; f32v2mul \p, \p, \t }
	{ nop ; f32v2add \p, \c:B, \p }
	.endm

	// a2:3 = |x| in f16; the second half is widened when a0, a1 are free for coefficients.
	.if OP == GELU_ERF_F16
	{ setzi $m5, coefficients ; fnop }
	{ ld64 $a0:1, $m0, $mzero, 0 ; fnop }
	{ nop ; f16v4absadd $a2:3, $a0:1, $azeros }
	{ rpt $m4, 31 ; fnop }
	{ ld32 $a0, $m5, $mzero, 0 ; f16v2tof32 $a4:5, $a2 }
	{ ld32 $a1, $m5, $mzero, 1 ; f32v2mul $a6:7, $a0:B, $a4:5 }
	{ nop ; f32v2add $a6:7, $a1:B, $a6:7 }
	HORNER $a6:7, $a4:5, $a1, 2
	HORNER $a6:7, $a4:5, $a1, 3
	HORNER $a6:7, $a4:5, $a1, 4
	HORNER $a6:7, $a4:5, $a1, 5
	{ nop ; f32exp2 $a6, $a6 }
	{ nop ; f32exp2 $a7, $a7 }
	{ nop ; f32v2mul $a4:5, $a4:5, $a6:7 }
	{ nop ; f16v2tof32 $a2:3, $a3 }
	{ ld32 $a1, $m5, $mzero, 1 ; f32v2mul $a6:7, $a0:B, $a2:3 }
	{ nop ; f32v2add $a6:7, $a1:B, $a6:7 }
	HORNER $a6:7, $a2:3, $a1, 2
	HORNER $a6:7, $a2:3, $a1, 3
	HORNER $a6:7, $a2:3, $a1, 4
	HORNER $a6:7, $a2:3, $a1, 5
	{ nop ; f32exp2 $a6, $a6 }
	{ nop ; f32exp2 $a7, $a7 }
	{ ld64step $a0:1, $mzero, $m0+=, 1 ; f32v2mul $a6:7, $a2:3, $a6:7 }
	{ nop ; f32v4tof16 $a4:5, $a4:7 }
	{ nop ; f16v4max $a0:1, $a0:1, $azeros }
	{ ld64 $a0:1, $m0, $mzero, 0 ; f16v4sub $a4:5, $a0:1, $a4:5 }
	{ st64step $a4:5, $mzero, $m2+=, 1 ; f16v4absadd $a2:3, $a0:1, $azeros }
	.endif

	.if OP == GELU_ERF_F32
	{ setzi $m5, coefficients ; fnop }
	{ ld64step $a0:1, $mzero, $m0+=, 1 ; fnop }
	{ ld32 $a7, $m5, $mzero, 0 ; f32v2absadd $a2:3, $a0:1, $azeros }
	{ rpt $m4, 21 ; fnop }
	{ ld32 $a6, $m5, $mzero, 1 ; f32v2mul $a4:5, $a7:B, $a2:3 }
	{ nop ; f32v2add $a4:5, $a6:B, $a4:5 }
	HORNER $a4:5, $a2:3, $a6, 2
	HORNER $a4:5, $a2:3, $a6, 3
	HORNER $a4:5, $a2:3, $a6, 4
	HORNER $a4:5, $a2:3, $a6, 5
	HORNER $a4:5, $a2:3, $a6, 6
	HORNER $a4:5, $a2:3, $a6, 7
	HORNER $a4:5, $a2:3, $a6, 8
	{ nop ; f32exp2 $a4, $a4 }
	{ nop ; f32exp2 $a5, $a5 }
	{ nop ; f32v2mul $a4:5, $a4:5, $a2:3 }
	{ nop ; f32v2max $a0:1, $a0:1, $azeros }
	{ ld64step $a0:1, $mzero, $m0+=, 1 ; f32v2sub $a4:5, $a0:1, $a4:5 }
	{ st64step $a4:5, $mzero, $m2+=, 1 ; f32v2absadd $a2:3, $a0:1, $azeros }
	.endif

no_atoms:
	exitz $mzero

	.p2align 3
coefficients:
	.if OP == GELU_TANH_F16
	.long 0x2c913e62                // 1.595703125, 0.07135
	.endif
	.if OP == GELU_TANH_F32
	.long 0x3d922279, 0x3fcc422a    // 0.07135481, 1.5957692
	.endif
	.if OP == GELU_ERF_F16
	.long 0xb9aeb9e6, 0x3bc30041, 0xbd4746ac, 0xbeed5850, 0xbf932096, 0xbf80035c
	.endif
	.if OP == GELU_ERF_F32
	.long 0xb5b61f58, 0x37ad85f5, 0xb8bfe69d, 0xb9c9322e, 0x3bf30de9, 0xbd58280f, 0xbeeb0f1b
	.long 0xbf935800, 0xbf7ffff3
	.endif
