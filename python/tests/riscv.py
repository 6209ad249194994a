"""Machine code for small bare-metal programs."""

RAM = 0x8000_0000
UART = 0x1000_0000
POWER = 0x10_0000

ZERO, T0, T1, T2, S0, S1, A0 = 0, 5, 6, 7, 8, 9, 10
MTVEC, MEPC = 0x305, 0x341
ECALL, MRET, WFI, STAY = 0x0000_0073, 0x3020_0073, 0x1050_0073, 0x0000_006F


def immediate(opcode, funct3, rd, rs1, value):
    """I-type."""
    return (value & 0xFFF) << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode


def addi(rd, rs1, value):
    return immediate(0x13, 0, rd, rs1, value)


def andi(rd, rs1, value):
    return immediate(0x13, 7, rd, rs1, value)


def lbu(rd, rs1, offset):
    return immediate(0x03, 4, rd, rs1, offset)


def csrw(csr, rs1):
    return immediate(0x73, 1, ZERO, rs1, csr)


def csrr(rd, csr):
    return immediate(0x73, 2, rd, ZERO, csr)


def lui(rd, value):
    return (value & 0xFFFF_F000) | rd << 7 | 0x37


def store(funct3, rs2, rs1, offset):
    return offset >> 5 << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | (offset & 31) << 7 | 0x23


def sb(rs2, rs1, offset=0):
    return store(0, rs2, rs1, offset)


def sw(rs2, rs1, offset=0):
    return store(2, rs2, rs1, offset)


def branch(funct3, rs1, rs2, offset):
    """B-type."""
    low = (offset >> 1 & 15) << 8 | (offset >> 11 & 1) << 7
    high = (offset >> 12 & 1) << 31 | (offset >> 5 & 63) << 25
    return high | rs2 << 20 | rs1 << 15 | funct3 << 12 | low | 0x63


POWER_OFF = [lui(T0, POWER), lui(T1, 0x5000), addi(T1, T1, 0x555), sw(T1, T0), WFI, STAY]


def program(words):
    """A flat binary."""
    return b"".join((word & 0xFFFF_FFFF).to_bytes(4, "little") for word in words)


def traps(count):
    """Says hi, makes `count` calls (at most 2047) that it handles itself, counts them in a0, and
    powers off.
    """
    body = [lui(S0, UART)]
    for letter in b"hi\n":
        body += [addi(T1, ZERO, letter), sb(T1, S0)]
    calls = [ECALL, addi(S1, S1, -1), branch(1, S1, ZERO, -8)]
    body += [addi(A0, ZERO, 0), addi(S1, ZERO, count), *calls, *POWER_OFF]
    handler = [csrr(T2, MEPC), addi(T2, T2, 4), csrw(MEPC, T2), addi(A0, A0, 1), MRET]
    # mtvec = address of the handler, which is behind the body; auipc t0, 0 is the first word.
    start = [T0 << 7 | 0x17, addi(T0, T0, 4 * (3 + len(body))), csrw(MTVEC, T0)]
    return program(start + body + handler)


def echo():
    """Sends what it receives until that is a q, and powers off."""
    loop = [lbu(T1, S0, 5), andi(T1, T1, 1), branch(0, T1, ZERO, -8), lbu(T1, S0, 0), sb(T1, S0)]
    loop += [addi(T2, ZERO, ord("q")), branch(1, T1, T2, -24)]
    return program([lui(S0, UART), *loop, *POWER_OFF])


def spin():
    """Never ends."""
    return program([STAY])


def compares():
    """Sets hart 0's comparator of the ACLINT to 5000 ticks, and never ends."""
    ticks = [lui(T1, 0x1000), addi(T1, T1, 5000 - 0x1000)]
    return program([lui(T0, 0x200_4000), *ticks, sw(T1, T0), sw(ZERO, T0, 4), STAY])
