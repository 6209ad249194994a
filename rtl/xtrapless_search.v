// SPDX-License-Identifier: Apache-2.0 OR MIT
// The search of a file for deliverable sources (EXT-3, EXT-4, DEL-12): which one a claim takes, or
// whether there is one at all. It only reads, so that the engine may drop it between two accesses
// (EXT-11): `run` is 1 from its beginning until its results have been used.

`include "generated/xtrapless.vh"

module xtrapless_search (
    input  wire        clk,
    input  wire        run,
    input  wire        first,     // Any source will do.
    input  wire [60:0] entry,     // of the domain
    input  wire [9:0]  sources,
    input  wire [60:0] file,
    output wire        done,
    output reg         found,
    output reg  [9:0]  source,    // the most urgent one
    output reg         more,      // There are others.
    output reg         whole,     // All pending sources have been looked at.

    output reg         mem_req,
    output reg  [60:0] mem_base,
    output reg  [9:0]  mem_word,
    input  wire        mem_ack,
    input  wire        mem_err,
    input  wire [63:0] mem_rdata
);
    localparam [2:0] PENDING = 3'd0;
    localparam [2:0] ENABLE = 3'd1;
    localparam [2:0] THRESHOLD = 3'd2;
    localparam [2:0] TABLE = 3'd3;
    localparam [2:0] ENTRY = 3'd4;
    localparam [2:0] DONE = 3'd5;

    reg [2:0]  step;
    reg [3:0]  word;
    reg [63:0] left;       // Sources of this word that have yet to be looked at
    reg        known;      // Threshold and table have been read.
    reg [2:0]  threshold;
    reg [60:0] table_at;
    reg [2:0]  prio;       // of `source`

    wire [5:0] lowest;
    wire       some;
    xtrapless_lowest #(.WIDTH(64), .BITS(6)) pick (.bits(left), .some(some), .index(lowest));

    wire last = word == sources[9:6];
    // MEM-4
    wire [63:0] exist = (last ? ~(64'hfffffffffffffffe << sources[5:0]) : 64'hffffffffffffffff)
        & {63'h7fffffffffffffff, word != 4'd0};
    wire [63:0] candidates = left & mem_rdata & exist;

    wire [2:0] entry_prio = mem_err || !mem_rdata[`XTL_SOURCE_ENTRY_V] ? 3'd0
        : mem_rdata[`XTL_SOURCE_ENTRY_PRIO];
    wire delivers = entry_prio > threshold;
    wire better = delivers && (!found || entry_prio > prio);
    wire [63:0] rest = left & (left - 64'd1);

    assign done = step == DONE;

    always @* begin
        mem_req = run && !done;
        mem_base = file;
        mem_word = 10'd0;
        case (step)
            PENDING: mem_word = `XTL_FILE_PENDING / 8 + {5'b0, word, 1'b0};
            ENABLE: mem_word = `XTL_FILE_ENABLE / 8 + {5'b0, word, 1'b0};
            THRESHOLD: mem_word = `XTL_FILE_THRESHOLD / 8;
            TABLE: begin
                mem_base = entry;
                mem_word = `XTL_DOMAIN_SOURCE_TABLE / 8;
            end
            default: begin
                mem_base = table_at;
                mem_word = {word, lowest};
            end
        endcase
    end

    wire unused = &{1'b0, some, 1'b0};

    always @(posedge clk) begin
        if (!run) begin
            step <= PENDING;
            word <= 4'd0;
            known <= 1'b0;
            found <= 1'b0;
            more <= 1'b0;
            whole <= 1'b0;
        end else if (mem_ack) begin
            case (step)
                PENDING: begin
                    left <= mem_rdata;
                    if (mem_rdata != 64'b0 && !mem_err)  // MEM-6
                        step <= ENABLE;
                    else if (last) begin
                        whole <= 1'b1;
                        step <= DONE;
                    end else
                        word <= word + 4'd1;
                end
                ENABLE: begin
                    left <= candidates;
                    if (candidates != 64'b0 && !mem_err)
                        step <= known ? ENTRY : THRESHOLD;
                    else if (last) begin
                        whole <= 1'b1;
                        step <= DONE;
                    end else begin
                        word <= word + 4'd1;
                        step <= PENDING;
                    end
                end
                THRESHOLD: begin
                    threshold <= mem_rdata[`XTL_VSTHRESHOLD_PRIO];
                    step <= mem_err ? DONE : TABLE;
                end
                TABLE: begin
                    table_at <= mem_rdata[63:3];
                    known <= 1'b1;
                    step <= mem_err ? DONE : ENTRY;
                end
                default: begin  // ENTRY
                    left <= rest;
                    found <= found || delivers;
                    more <= more || (found && delivers);
                    if (better) begin
                        source <= {word, lowest};
                        prio <= entry_prio;
                    end
                    if (better && (first || entry_prio == 3'd7)) begin
                        whole <= rest == 64'b0 && last;
                        step <= DONE;
                    end else if (rest == 64'b0) begin
                        if (last) begin
                            whole <= 1'b1;
                            step <= DONE;
                        end else begin
                            word <= word + 4'd1;
                            step <= PENDING;
                        end
                    end
                end
            endcase
        end
    end
endmodule
