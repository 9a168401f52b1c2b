// out = act(sum of partials + b + c): f32 partial sums and f16 addends to f16, in atoms of 4
// elements: 16 bytes of partials, 8 bytes of b, c and out.
//
// Defines:  ADDENDS  0, 1 (b) or 2 (b and c)
//           RELU     1: max(x, 0) on the way out
//           OUT_F32  1: b and out are f32, 16 bytes an atom; ADDENDS is 0 or 1. 0 by default
//
// Record:   partials, [b, [c,]] out, atoms_each, atoms_extra, parts >= 1, part_stride
//   partials  interleaved memory: part p at p * part_stride bytes, a multiple of 16
//   b, c, out anywhere; out may be b or c
//
// Sums are f32, rounded after each term, from +0 on in the order of the parts, then b, then c.
//
// Worker w takes atoms_each + (w < atoms_extra) atoms from w * atoms_each + min(w, atoms_extra) on.
// The sums are in accumulators 0, 2, 4, 6: f32v4acc adds 16 bytes in the bundle that loads the next
// 16. f32v2gina takes two of them out and moves the others down by two; what moves in behind is 0,
// and the four at the start have made everything 0.
//
// Memory rules: none but the class of partials. One access an instruction. Read beyond the end: 16
// bytes of partials.
//
// Bundles of a worker with n atoms (the aux slots are the bound with addends, else the main ones):
//            relu = 0                  relu = 1
//   no b     28 + n * (parts + 4)      28 + n * (parts + 4)
//   b        30 + n * (parts + 6)      30 + n * (parts + 7)
//   b, c     32 + n * (parts + 9)      32 + n * (parts + 10)
// OUT_F32: 26 + n * (parts + 6), with b 28 + n * (parts + 7), with relu 2 more an atom.
// A call takes 37 to 39 clocks more than the six times that of its slowest worker.

	.ifndef OUT_F32
	.set OUT_F32, 0
	.endif

	.set WSR, 1

	.set ARG_PARTIALS, 0
	.set ARG_B, 1
	.set ARG_C, 2
	.set ARG_OUT, 1 + ADDENDS
	.set ARG_ATOMS_EACH, 2 + ADDENDS
	.set ARG_ATOMS_EXTRA, 3 + ADDENDS
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

// m0 part 0 of the next atom to load, m1 the next part to load of the atom in work, m2 part stride
// in 16 bytes, m3 part stride - 16, m4 atoms left - 1, m5 parts - 1, m6 out, m7 b, m8 c.
// a0:3 a part, or an addend in f32; a4:7 sums; a4:5 the last atom of out, then c; a6:7 b.
	.worker

	// Whether an atom is narrowed in the first bundle of the next one, where relu would be.
	.set LATE, (ADDENDS > 0) & (RELU == 0)

	// An atom, at 0 mod 8. `head` finishes and `store` stores the one before; `branch` ends it.
	// The first part of the atom is in a0:3 on entry, that of the next on exit.
	.macro ATOM head, store, branch
	{ rpt $m5, 0 ; \head }
	{ ld128step $a0:3, $mzero, $m1+=, $m2 ; f32v4acc $a0:3 }
	.if ADDENDS == 0
	{ \store ; f32v4acc $a0:3 }
	{ ld128step $a0:3, $mzero, $m0+=, 1 ; f32v2gina $a4:5, $azeros, 0 }
	{ add $m1, $m0, $m3 ; f32v2gina $a6:7, $azeros, 0 }
	{ \branch ; f32v4tof16 $a4:5, $a4:7 }
	.else
	{ ld64step $a6:7, $mzero, $m7+=, 1 ; f32v4acc $a0:3 }
	{ \store ; f16v2tof32 $a0:1, $a6 }
	.if ADDENDS == 1
	{ nop ; f16v2tof32 $a2:3, $a7 }
	.else
	{ ld64step $a4:5, $mzero, $m8+=, 1 ; f16v2tof32 $a2:3, $a7 }
	{ nop ; f32v4acc $a0:3 }
	{ nop ; f16v2tof32 $a0:1, $a4 }
	{ nop ; f16v2tof32 $a2:3, $a5 }
	.endif
	{ ld128step $a0:3, $mzero, $m0+=, 1 ; f32v4acc $a0:3 }
	{ add $m1, $m0, $m3 ; f32v2gina $a4:5, $azeros, 0 }
	.if LATE
	{ \branch ; f32v2gina $a6:7, $azeros, 0 }
	.else
	{ nop ; f32v2gina $a6:7, $azeros, 0 }
	{ \branch ; f32v4tof16 $a4:5, $a4:7 }
	.endif
	.endif
	.endm

	// All atoms of a worker; `finish` is what is left to do for an atom.
	.macro ATOMS finish
	ATOM fnop, nop, "brz $m4, last"
	{ add $m4, $m4, -1 ; fnop }
loop:
	ATOM "\finish", "st64step $a4:5, $mzero, $m6+=, 1", "brnzdec $m4, loop"
last:
	{ nop ; \finish }
	st64 $a4:5, $m6, $mzero, 0
no_atoms:
	exitz $mzero
	.endm

	.p2align 3
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
	shl $m1, $m3, 3 + OUT_F32
	shl $m3, $m3, 4
	ld32 $m0, $mvertex_base, $mzero, ARG_PARTIALS
	add $m0, $m0, $m3
	.if ADDENDS > 0
	ld32 $m7, $mvertex_base, $mzero, ARG_B
	add $m7, $m7, $m1
	.endif
	.if ADDENDS > 1
	ld32 $m8, $mvertex_base, $mzero, ARG_C
	add $m8, $m8, $m1
	.endif
	ld32 $m6, $mvertex_base, $mzero, ARG_OUT
	add $m6, $m6, $m1
	ld32 $m5, $mvertex_base, $mzero, ARG_PARTS
	ld32 $m3, $mvertex_base, $mzero, ARG_PART_STRIDE
	{ shr $m2, $m3, 4 ; f32v2gina $azeros, $azeros, 0 }
	{ add $m3, $m3, -16 ; f32v2gina $azeros, $azeros, 0 }
	{ add $m4, $m4, -1 ; f32v2gina $azeros, $azeros, 0 }
	{ add $m5, $m5, -1 ; f32v2gina $azeros, $azeros, 0 }
	{ ld128step $a0:3, $mzero, $m0+=, 1 ; fnop }
	{ add $m1, $m0, $m3 ; fnop }
	.if OUT_F32
	// The first part of the atom is in a0:3 on entry, that of the next on exit.
	.p2align 3
	{ nop ; fnop }
single:
	{ rpt $m5, 0 ; fnop }
	{ ld128step $a0:3, $mzero, $m1+=, $m2 ; f32v4acc $a0:3 }
	.if ADDENDS
	{ ld64step $a4:5, $mzero, $m7+=, 1 ; f32v4acc $a0:3 }
	{ ld64step $a6:7, $mzero, $m7+=, 1 ; fnop }
	{ ld128step $a0:3, $mzero, $m0+=, 1 ; f32v4acc $a4:7 }
	.else
	{ nop ; f32v4acc $a0:3 }
	{ ld128step $a0:3, $mzero, $m0+=, 1 ; fnop }
	.endif
	{ add $m1, $m0, $m3 ; f32v2gina $a4:5, $azeros, 0 }
	.if RELU
	{ nop ; f32v2max $a4:5, $a4:5, $azeros }
	.endif
	{ st64step $a4:5, $mzero, $m6+=, 1 ; f32v2gina $a6:7, $azeros, 0 }
	.if RELU
	{ nop ; f32v2max $a6:7, $a6:7, $azeros }
	.endif
	{ st64step $a6:7, $mzero, $m6+=, 1 ; fnop }
	{ brnzdec $m4, single ; fnop }
no_atoms:
	exitz $mzero
	.elseif RELU
	ATOMS "f16v4max $a4:5, $a4:5, $azeros"
	.elseif LATE
	ATOMS "f32v4tof16 $a4:5, $a4:7"
	.else
	ATOMS fnop
	.endif
