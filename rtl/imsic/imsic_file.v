// SPDX-License-Identifier: Apache-2.0 OR MIT
// An interrupt file: pending and enable bits of its identities, delivery, threshold.

module imsic_file #(
    parameter IDENTITIES = 255,
    parameter BITS = 8  // of an identity
) (
    input  wire            clk,
    input  wire            reset,

    input  wire            arrives,          // A message makes `identity` pending.
    input  wire [BITS-1:0] identity,

    input  wire            enables,          // eie instead of eip
    input  wire [5:0]      word,             // Which of them
    input  wire            claim,
    input  wire            write_array,
    input  wire            write_delivery,
    input  wire            write_threshold,
    input  wire [63:0]     value,

    output wire [63:0]     array,            // The register that `enables` and `word` name
    output wire [BITS-1:0] top,              // Identity of stopei
    output reg  [BITS-1:0] threshold,
    output reg             delivery,
    output reg             level
);
    localparam WORDS = (IDENTITIES + 1) / 64;
    localparam LOG = WORDS > 16 ? 5 : WORDS > 8 ? 4 : WORDS > 4 ? 3 : WORDS > 2 ? 2 : 1;

    // Identity 0 does not exist.
    reg [IDENTITIES:0] pending;
    reg [IDENTITIES:0] enabled;

    wire [BITS-1:0] first;
    wire            some;
    reg  [(1<<BITS)-1:0] deliverable;
    always @* begin
        deliverable = {(1 << BITS){1'b0}};
        deliverable[IDENTITIES:0] = pending & enabled;
    end
    imsic_first #(.BITS(BITS)) pick (.bits(deliverable), .some(some), .index(first));
    wire permitted = some && (threshold == {BITS{1'b0}} || first < threshold);
    assign top = permitted ? first : {BITS{1'b0}};

    wire exists = {26'b0, word} < WORDS;
    wire [LOG-1:0] at = word[LOG-1:0];
    reg [(64<<LOG)-1:0] both;
    always @* begin
        both = {(64 << LOG){1'b0}};
        both[IDENTITIES:0] = enables ? enabled : pending;
    end
    assign array = exists ? both[64*at+:64] : 64'b0;

    wire [IDENTITIES:0] one = {{IDENTITIES{1'b0}}, 1'b1};
    wire [IDENTITIES:0] message = arrives ? one << identity : {(IDENTITIES + 1){1'b0}};
    wire [IDENTITIES:0] claimed = claim ? one << top : {(IDENTITIES + 1){1'b0}};

    genvar w;
    generate
        for (w = 0; w < WORDS; w = w + 1) begin : words
            wire mine = write_array && word == w;
            wire [63:0] exist = w == 0 ? ~64'd1 : ~64'd0;
            always @(posedge clk) begin
                if (reset) begin
                    pending[64*w+:64] <= 64'b0;
                    enabled[64*w+:64] <= 64'b0;
                end else begin
                    pending[64*w+:64] <= ((mine && !enables ? value
                        : pending[64*w+:64] & ~claimed[64*w+:64]) | message[64*w+:64]) & exist;
                    if (mine && enables)
                        enabled[64*w+:64] <= value & exist;
                end
            end
        end
    endgenerate

    wire unused = &{1'b0, word, 1'b0};

    always @(posedge clk) begin
        if (reset) begin
            threshold <= {BITS{1'b0}};
            delivery <= 1'b0;
            level <= 1'b0;
        end else begin
            if (write_threshold)
                threshold <= value[BITS-1:0];
            if (write_delivery)
                delivery <= value[0];
            level <= delivery && permitted;
        end
    end
endmodule
