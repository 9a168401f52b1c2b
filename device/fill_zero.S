// out = 0, in atoms of 8 bytes.
//
// Record: out, atoms_each, atoms_extra. Worker w takes atoms_each + (w < atoms_extra) atoms from
// w * atoms_each + min(w, atoms_extra) on.
//
// Memory rules: none. One 64-bit store an instruction; nothing is read.
//
// Bundles of a worker with n atoms: 13 + n.

	.set WSR, 1

	.set ARG_OUT, 0
	.set ARG_ATOMS_EACH, 1
	.set ARG_ATOMS_EXTRA, 2

	.section .text.kernel, "ax"
	.globl kernel_entry
	.supervisor
	.p2align 3
kernel_entry:
	setzi $m1, worker
	runall $m1, $m0, 0
	sync 2
	br $m10

// m0 out, m3 bytes into it, m4 atoms.
	.worker
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
	ld32 $m0, $mvertex_base, $mzero, ARG_OUT
	shl $m3, $m3, 3
	rpt $m4, 0
	{ st64step $azeros, $m0, $m3+=, 1 ; fnop }
	exitz $mzero
