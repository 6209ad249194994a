// SPDX-License-Identifier: Apache-2.0 OR MIT
// stimecmp and vstimecmp of Sstc (chapter "Timers"). Independent of the slot (TIM-2). The core has
// checked rights; its stimecmp at V=1 is vstimecmp.

`include "port.vh"

module xtrapless_timer (
    input  wire        clk,
    input  wire        reset,
    input  wire [63:0] now,        // time
    input  wire [63:0] delta,      // htimedelta
    input  wire        write,
    input  wire        of_guest,   // vstimecmp
    input  wire [2:0]  op,
    input  wire [63:0] operand,
    output wire [63:0] old,
    output reg         vstip,
    output reg         stip
);
    reg [63:0] stimecmp;
    reg [63:0] vstimecmp;

    wire [63:0] guest_now = now + delta;

    assign old = of_guest ? vstimecmp : stimecmp;
    wire [63:0] value = op == `PORT_SET ? old | operand
                      : op == `PORT_CLEAR ? old & ~operand : operand;

    always @(posedge clk) begin
        if (reset) begin
            // Not expired: what they hold is the core's choice, as these are no CSRs of Xtrapless.
            stimecmp <= 64'hffffffffffffffff;
            vstimecmp <= 64'hffffffffffffffff;
            vstip <= 1'b0;
            stip <= 1'b0;
        end else begin
            if (write && of_guest)
                vstimecmp <= value;
            if (write && !of_guest)
                stimecmp <= value;
            vstip <= guest_now >= (write && of_guest ? value : vstimecmp);
            stip <= now >= (write && !of_guest ? value : stimecmp);
        end
    end
endmodule
