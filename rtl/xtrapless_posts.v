// SPDX-License-Identifier: Apache-2.0 OR MIT
// What is left of a guest's sgenipi after the instruction has retired (CSR-4, ORD-13): the targets
// that have yet to be posted to, one engine job each. The domain is that of the slot at the time of
// the instruction. The vhart of the writer comes first, because the instruction waits for it
// (CSR-2).

`include "generated/xtrapless.vh"

module xtrapless_posts (
    input  wire        clk,
    input  wire        reset,
    input  wire        accept,    // Takes an operand; only while `busy` is 0.
    input  wire [15:0] base,
    input  wire [31:0] mask,
    input  wire [15:0] dom,
    input  wire [15:0] self,      // The vhart of the writer
    input  wire        take,      // The engine begins with `target`.
    output wire        busy,
    output wire        own,       // `target` is the writer itself.
    output reg  [15:0] domain,
    output wire [15:0] target
);
    reg [15:0] first;
    reg [31:0] left;
    reg        own_left;
    reg [4:0]  own_bit;

    // CSR-6: nothing wraps around.
    wire [16:0] last_fit = 17'h10000 - {1'b0, base};
    wire [31:0] fit = last_fit > 17'd31 ? 32'hffffffff : (32'd1 << last_fit[4:0]) - 32'd1;
    wire [15:0] distance = self - base;
    wire        names_self = distance < 16'd32 && self >= base && mask[distance[4:0]];

    wire [4:0] lowest;
    wire       some;
    xtrapless_lowest #(.WIDTH(32), .BITS(5)) pick (.bits(left), .some(some), .index(lowest));

    assign busy = some;
    assign own = own_left;
    wire [4:0] chosen = own_left ? own_bit : lowest;
    assign target = first + {11'b0, chosen};

    always @(posedge clk) begin
        if (reset) begin
            left <= 32'b0;
            own_left <= 1'b0;
            own_bit <= 5'b0;
            first <= 16'b0;
            domain <= 16'b0;
        end else if (accept) begin
            left <= mask & fit;
            own_left <= names_self;
            own_bit <= distance[4:0];
            first <= base;
            domain <= dom;
        end else if (take) begin
            left <= left & ~(32'd1 << chosen);
            own_left <= 1'b0;
        end
    end
endmodule
