// SPDX-License-Identifier: Apache-2.0 OR MIT
// What an atomic operation of the memory port makes of a word. For whoever connects the port: a
// cache that holds the line, or a bus that locks the word, has this between reading and writing.

`include "generated/xtrapless.vh"
`include "port.vh"

module xtrapless_alu (
    input  wire [1:0]  op,
    input  wire [63:0] old,
    input  wire [63:0] mask,
    input  wire [63:0] wdata,
    output wire [63:0] value
);
    wire [1:0] state = old[`XTL_FILE_CTL_STATE];
    wire absent = state == `XTL_STATE_HALTED || state == `XTL_STATE_PREEMPTED;

    assign value = op == `MEM_STORE ? wdata
                 : op == `MEM_MERGE || (op == `MEM_MARK && absent) ? (old & ~mask) | (wdata & mask)
                 : old;
endmodule
