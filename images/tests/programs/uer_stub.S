/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The entry of uer.c's handler in user mode, and its guest. uscratch holds the
 * address of the vCPU's struct frame.
 */

#define USCRATCH	0x8c0
#define UTVAL		0x8c3
#define UTINST		0x8ca
#define FRAME_STACK	256
#define FRAME_TP	264
#define FRAME_GP	272

/* All registers but t0, which holds the frame */
.macro each, op
.irp n, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, \
	21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	\op	x\n, 8 * \n(t0)
.endr
.endm

.text
.globl uer_entry, uer_ecall
.balign 4
uer_entry:
	csrrw	t0, USCRATCH, t0
	each	sd
	csrrw	t1, USCRATCH, t0
	sd	t1, 8 * 5(t0)
	ld	sp, FRAME_STACK(t0)
	ld	tp, FRAME_TP(t0)
	ld	gp, FRAME_GP(t0)
	mv	a0, t0
	csrr	a1, UTVAL
	csrr	a2, UTINST
	call	uer_handler
	csrr	t0, USCRATCH
	bnez	a0, 1f
	each	ld
	ld	t0, 8 * 5(t0)
	.4byte	0x8c000073	/* uret */
1:
	each	ld
	ld	t0, 8 * 5(t0)
uer_ecall:
	ecall

/*
 * The guest stores a1 at a0, and what it loads from there goes to a2. Then an
 * access to which there is no handler ends KVM_RUN: a3 counts the rounds.
 */
.globl uer_guest, uer_guest_end
uer_guest:
	sb	a1, 0(a0)
	lbu	a2, 0(a0)
	addi	a3, a3, 1
	lui	a4, 0x20000
	sw	a3, 0(a4)
	j	uer_guest
uer_guest_end:

.section .note.GNU-stack, "", @progbits
