# Traps a known number of times between all modes, and counts that with the hart's own performance
# counters. What they say is the signature: mhpmcounter3..6, minstret. See tests/counters.rs.
#
#   M: set up, hand over to HS     HS: enter the guest, handle its exits     VS: ecalls, own traps

        .option norvc

        .equ EXITS, 100          # ecalls of the guest to HS-mode
        .equ OWN_TRAPS, 7        # breakpoints the guest handles itself
        .equ HOST_TRAPS, 5       # breakpoints HS-mode handles itself
        .equ FIRMWARE, 11        # ecalls of HS-mode to M-mode, without the last

        .section .text
        .global _start
_start:
        la      t0, m_trap
        csrw    mtvec, t0
        la      sp, stack
        # All of memory for the lower modes.
        li      t0, -1
        csrw    pmpaddr0, t0
        li      t0, 0x1f
        csrw    pmpcfg0, t0
        # Breakpoints (3) to HS and on to VS; ecalls from VS (10) to HS.
        li      t0, 1 << 3 | 1 << 10
        csrw    medeleg, t0
        li      t0, 1 << 3
        csrw    hedeleg, t0
        # FIRST is 1, for traps to M, or 5, for guest entries. Then: traps to HS from V=0, guest
        # exits, traps to VS.
        csrwi   mhpmevent3, FIRST
        csrwi   mhpmevent4, 2
        csrwi   mhpmevent5, 3
        csrwi   mhpmevent6, 4
        li      t0, 0b11 << 11
        csrc    mstatus, t0
        li      t0, 0b01 << 11
        csrs    mstatus, t0
        la      t0, hs
        csrw    mepc, t0
        mret

hs:     li      a7, 0
        la      t0, hs_trap
        csrw    stvec, t0
        li      s1, HOST_TRAPS
1:      ebreak
        addi    s1, s1, -1
        bnez    s1, 1b
        li      s1, FIRMWARE
1:      ecall
        addi    s1, s1, -1
        bnez    s1, 1b
        # sret goes to VS-mode: hstatus.SPV (7), SPVP (8), sstatus.SPP (8).
        li      t0, 1 << 7 | 1 << 8
        csrs    hstatus, t0
        li      t0, 1 << 8
        csrs    sstatus, t0
        la      t0, vs_trap
        csrw    vstvec, t0
        la      t0, vs
        csrw    sepc, t0
        sret

vs:     li      s1, OWN_TRAPS
1:      ebreak
        addi    s1, s1, -1
        bnez    s1, 1b
        li      s2, EXITS
        li      a7, 0x10                # SBI BASE
1:      ecall
        addi    s2, s2, -1
        bnez    s2, 1b
        # Never comes back: HS-mode ends the run at the last ecall.
        j       .

        .balign 4
vs_trap:
        csrr    t0, sepc
        addi    t0, t0, 4
        csrw    sepc, t0
        sret

        .balign 4
hs_trap:
        csrr    t0, scause
        li      t1, 3
        beq     t0, t1, 1f
        li      t1, 1
        beq     s2, t1, 2f
1:      csrr    t0, sepc
        addi    t0, t0, 4
        csrw    sepc, t0
        sret
        # The last ecall of HS-mode: a7 tells.
2:      li      a7, 1
        ecall
        j       .

        .balign 4
m_trap: bnez    a7, finish
        csrr    t0, mepc
        addi    t0, t0, 4
        csrw    mepc, t0
        mret

finish: la      t0, begin_signature
        csrr    t1, mhpmcounter3
        sd      t1, 0(t0)
        csrr    t1, mhpmcounter4
        sd      t1, 8(t0)
        csrr    t1, mhpmcounter5
        sd      t1, 16(t0)
        csrr    t1, mhpmcounter6
        sd      t1, 24(t0)
        csrr    t1, minstret
        sd      t1, 32(t0)
        # From reading minstret to the end: csrr, sd, li, la (two), sd; wfi waits for ever.
        li      t1, 1
        la      t0, tohost
        sd      t1, 0(t0)
        wfi
        j       .

        .section .data
        .balign 64
        .global tohost, begin_signature, end_signature
tohost: .dword  0
        .balign 64
begin_signature:
        .fill   5, 8, 0
end_signature:
        .fill   512, 8, 0
stack:
