// Copies runs of 4-byte words between any places of two buffers.
//
//   for each run: its words from src + source offset to dst + destination offset
//
// Record: src, dst, runs, work, then the table: for each run its source byte offset, destination
// byte offset (multiples of 4) and words (0 to 65535). Worker w takes runs w, w + 6, w + 12, ...
// The kernel does not read `work`: it is the largest sum of bundles, as below, that a worker has
// for its runs, and the law needs it.
//
// Offsets that are both even or both odd in units of 4 bytes are copied 8 bytes at a time, after
// one word if both are odd, and with one word at the end if one is left.
//
// Memory rules: none. One load or store an instruction, so src and dst may lie anywhere, also in
// one element; no run may write what another run reads. Nothing outside the runs is read.
//
// Bundles of a worker: 16 + for each of its runs of n words
//   both even: 14 + 2 * (n / 2) + 2 * (n mod 2)
//   both odd: 18 + 2 * ((n - 1) / 2) + 2 * ((n - 1) mod 2), or 10 if n = 0
//   else 8 + 2 * n

	.set WSR, 1
	.set RUN_WORDS, 3
	.set WORKERS, 6

	.set ARG_SRC, 0
	.set ARG_DST, 1
	.set ARG_RUNS, 2
	.set ARG_TABLE, 4

	.section .text.kernel, "ax"
	.globl kernel_entry
	.supervisor
	.p2align 3
kernel_entry:
	setzi $m1, worker
	runall $m1, $m0, 0
	sync 2
	br $m10

// m0 runs left - 1, m1 src, m2 dst, m3 bytes from the record to the run, m4 and m5 its offsets,
// m6 words left.
	.worker
	.p2align 3
worker:
	get $m3, WSR
	and $m3, $m3, 7
	ld32 $m0, $mvertex_base, $mzero, ARG_RUNS
	add $m0, $m0, WORKERS - 1
	sub $m0, $m0, $m3
	// m0 / 6, exact below 98304.
	setzi $m4, 43691
	mul $m0, $m0, $m4
	shr $m0, $m0, 18
	brz $m0, no_runs
	add $m0, $m0, -1
	mul $m3, $m3, 4 * RUN_WORDS
	add $m3, $m3, 4 * ARG_TABLE
	ld32 $m1, $mvertex_base, $mzero, ARG_SRC
	ld32 $m2, $mvertex_base, $mzero, ARG_DST
	nop                             // the bundles at 0 mod 8
run:
	ld32step $m4, $mvertex_base, $m3+=, 1
	ld32step $m5, $mvertex_base, $m3+=, 1
	ld32step $m6, $mvertex_base, $m3+=, 1 + (WORKERS - 1) * RUN_WORDS
	add $m7, $m4, $m5
	and $m7, $m7, 4
	brnz $m7, words
	and $m7, $m4, 4
	brz $m7, pairs
	brz $m6, next
	ld32step $a0, $m1, $m4+=, 1
	st32step $a0, $m2, $m5+=, 1
	add $m6, $m6, -1
pairs:
	shr $m7, $m6, 1
	{ rpt $m7, 1 ; fnop }
	{ ld64step $a0:1, $m1, $m4+=, 1 ; fnop }
	{ st64step $a0:1, $m2, $m5+=, 1 ; fnop }
	and $m6, $m6, 1
	nop
words:
	{ rpt $m6, 1 ; fnop }
	{ ld32step $a0, $m1, $m4+=, 1 ; fnop }
	{ st32step $a0, $m2, $m5+=, 1 ; fnop }
next:
	brnzdec $m0, run
no_runs:
	exitz $mzero
