// out = a op b, or max(a, 0), on f16 or f32, in atoms of 8 bytes (4 or 2 elements).
//
// Define OP: 0 a + b, 1 a - b, 2 a * b, 3 max, 4 min, 5 relu (no b); 8 more for f32. NaN and rounding
// as the f16v4 or f32v2 instruction has them.
//
// Record: a, [b,] out, atoms_each, atoms_extra. Worker w takes atoms_each + (w < atoms_extra) atoms
// from w * atoms_each + min(w, atoms_extra) on.
//
// Memory rules: none. One access an instruction; buffers may lie anywhere, and out may be a or b.
// Nothing is read beyond the end.
//
// Bundles of a worker with n atoms: 18 + 3n, relu 17 + 2n.

	.set WSR, 1
	.set RELU, 5
	.set IS_RELU, OP == RELU || OP == RELU + 8

	.set ARG_A, 0
	.set ARG_B, 1
	.if IS_RELU
	.set ARG_OUT, 1
	.else
	.set ARG_OUT, 2
	.endif
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

// m0 a, m1 b, m2 out - 16, m3 bytes into them: those of the atom to load, while the store is one
// atom behind. m4 atoms - 1.
	.worker

	.macro WORKER op
	.p2align 3
	.if IS_RELU
	nop                             // the bundles at 0 mod 8
	.endif
worker:
	get $m0, WSR
	and $m0, $m0, 7
	ld32 $m4, $mvertex_base, $mzero, ARG_ATOMS_EACH
	ld32 $m5, $mvertex_base, $mzero, ARG_ATOMS_EXTRA
	mul $m3, $m0, $m4
	min $m6, $m0, $m5
	add $m3, $m3, $m6
	cmpult $m6, $m0, $m5
	add $m4, $m4, $m6
	brz $m4, no_atoms
	ld32 $m0, $mvertex_base, $mzero, ARG_A
	.if IS_RELU == 0
	ld32 $m1, $mvertex_base, $mzero, ARG_B
	.endif
	ld32 $m2, $mvertex_base, $mzero, ARG_OUT
	shl $m3, $m3, 3
	add $m2, $m2, -16
	add $m4, $m4, -1
	.if IS_RELU
	{ ld64step $a0:1, $m0, $m3+=, 1 ; fnop }
	{ rpt $m4, 1 ; \op $a4:5, $a0:1, $azeros }
	{ ld64step $a0:1, $m0, $m3+=, 1 ; fnop }
	{ st64 $a4:5, $m2, $m3, 0 ; \op $a4:5, $a0:1, $azeros }
	.else
	ld64 $a0:1, $m0, $m3, 0
	ld64step $a2:3, $m1, $m3+=, 1
	{ rpt $m4, 2 ; \op $a4:5, $a0:1, $a2:3 }
	{ ld64 $a0:1, $m0, $m3, 0 ; fnop }
	{ ld64step $a2:3, $m1, $m3+=, 1 ; fnop }
	{ st64 $a4:5, $m2, $m3, 0 ; \op $a4:5, $a0:1, $a2:3 }
	.endif
	st64 $a4:5, $m2, $m3, 1
no_atoms:
	exitz $mzero
	.endm

	.if OP == 0
	WORKER f16v4add
	.endif
	.if OP == 1
	WORKER f16v4sub
	.endif
	.if OP == 2
	WORKER f16v4mul
	.endif
	.if OP == 3
	WORKER f16v4max
	.endif
	.if OP == 4
	WORKER f16v4min
	.endif
	.if OP == 5
	WORKER f16v4max
	.endif
	.if OP == 8
	WORKER f32v2add
	.endif
	.if OP == 9
	WORKER f32v2sub
	.endif
	.if OP == 10
	WORKER f32v2mul
	.endif
	.if OP == 11
	WORKER f32v2max
	.endif
	.if OP == 12
	WORKER f32v2min
	.endif
	.if OP == 13
	WORKER f32v2max
	.endif
