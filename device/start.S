// First code of every tile, at the address where the loader starts it.
//
// Defines: MAIN           the tile's superstep program
//          SCRATCH        private scratch of worker 0
//          SCRATCH_BYTES  from one worker's scratch to the next
//          MUX_NEUTRAL    mux value that selects nobody

	.set WORKER0_BASE, 33
	.set INCOMING_MUX, 160
	.set INCOMING_BASE, 164
	.set OUTGOING_BASE, 167

	.section .text.start, "ax"
	.globl start
	.supervisor
	.p2align 3
start:
	// The loader enters here; eight bytes, as the public images have them.
	setzi $m0, prologue
	br $m0
prologue:
	setzi $m1, MUX_NEUTRAL
	setzi $m2, SCRATCH
	put INCOMING_BASE, $mzero
	put OUTGOING_BASE, $mzero
	put INCOMING_MUX, $m1
	.set W, WORKER0_BASE
	.rept 6
	put W, $m2
	add $m2, $m2, SCRATCH_BYTES
	.set W, W + 1
	.endr
	bri MAIN
