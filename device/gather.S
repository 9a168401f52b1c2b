// Gathers f16 elements: every 4-byte word of the result from two halves of the source.
//
//   for i < count: the halves of the word at dst + dst_offset + 4 * i are elements
//                  table[i] mod 65536 and table[i] / 65536 of src
//
// Record: src, dst, count, dst_offset (bytes, a multiple of 4), then the table: one word for each
// word of the result, two indices in elements of f16 from the start of src, the lower half first.
// Worker w takes count / 6 + (w < count mod 6) words from w * (count / 6) + min(w, count mod 6) on.
// The table may be longer than count, which is below 98304.
//
// Memory rules: none. One load or store an instruction. src and dst must not overlap; nothing but
// the named elements is read.
//
// Bundles of a worker with n words: 21, and if n > 0 9 + 5 * (n - 1) more.

	.set WSR, 1
	.set WORKERS, 6

	.set ARG_SRC, 0
	.set ARG_DST, 1
	.set ARG_COUNT, 2
	.set ARG_DST_OFFSET, 3
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

// m0 words - 1, m1 src, m2 dst + dst_offset, m3 bytes from the record to the indices, m4 bytes from
// m2 to the word.
	.worker
	.p2align 3
worker:
	get $m3, WSR
	and $m3, $m3, 7
	ld32 $m0, $mvertex_base, $mzero, ARG_COUNT
	// m0 / 6, exact below 98304.
	setzi $m4, 43691
	mul $m4, $m0, $m4
	shr $m4, $m4, 18
	mul $m5, $m4, WORKERS
	sub $m5, $m0, $m5
	cmpult $m6, $m3, $m5
	add $m0, $m4, $m6
	mul $m4, $m3, $m4
	min $m6, $m3, $m5
	add $m4, $m4, $m6
	shl $m4, $m4, 2
	add $m3, $m4, 4 * ARG_TABLE
	ld32 $m1, $mvertex_base, $mzero, ARG_SRC
	ld32 $m2, $mvertex_base, $mzero, ARG_DST
	ld32 $m5, $mvertex_base, $mzero, ARG_DST_OFFSET
	add $m2, $m2, $m5
	brz $m0, no_words
	add $m0, $m0, -1
	ldz16step $m5, $mvertex_base, $m3+=, 1
	ldz16step $m6, $mvertex_base, $m3+=, 1
	ldb16 $a0, $m1, $mzero, $m5
	ldb16 $a1, $m1, $mzero, $m6
	// The word is put together and stored while the next one is loaded.
	.p2align 3
	{ rpt $m0, 4 ; fnop }
	{ ldz16step $m5, $mvertex_base, $m3+=, 1 ; sort4x16lo $a2, $a0, $a1 }
	{ ldz16step $m6, $mvertex_base, $m3+=, 1 ; fnop }
	{ st32step $a2, $m2, $m4+=, 1 ; fnop }
	{ ldb16 $a0, $m1, $mzero, $m5 ; fnop }
	{ ldb16 $a1, $m1, $mzero, $m6 ; fnop }
	sort4x16lo $a2, $a0, $a1
	st32step $a2, $m2, $m4+=, 1
no_words:
	exitz $mzero
