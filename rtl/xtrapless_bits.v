// SPDX-License-Identifier: Apache-2.0 OR MIT
// What the file of the loaded vhart contributes to vsip, and the latches of hip (chapter "Pending
// and enable bits of guest and host"). Bit 0 of a pair is the software interrupt, bit 1 the
// external one. hvip, hgeip, hideleg and the enable bits are the core's.

module xtrapless_bits (
    input  wire       clk,
    input  wire       reset,
    input  wire       v,       // The hart is in VS- or VU-mode.
    input  wire [1:0] clear,   // Software writes 0 to the latch (BIT-6).
    input  wire [1:0] change,  // These terms become what `value` says.
    input  wire [1:0] value,
    input  wire       poke,    // The change comes from a poke (DEL-7, SLOT-4).
    output reg  [1:0] terms,   // vsip.SSIP and vsip.SEIP
    output reg  [1:0] latches  // hip.VSSIP and hip.VSEIP
);
    wire [1:0] next = (terms & ~change) | (value & change);
    wire [1:0] arrived = poke ? next & ~terms : 2'b00;

    always @(posedge clk) begin
        if (reset) begin
            terms <= 2'b00;
            latches <= 2'b00;
        end else begin
            terms <= next;
            latches <= v ? 2'b00 : (latches & ~clear) | arrived;
        end
    end
endmodule
