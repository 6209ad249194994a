// SPDX-License-Identifier: Apache-2.0 OR MIT
// The notification queue of a hart: hnqbase and the positions of the ring (chapter
// "Notifications"). The engine stores and loads the entries. A reset while it does waits for
// memory, because a request must stay as it is until it is answered; until then the queue looks
// closed and empty to the hart.

`include "generated/xtrapless.vh"

module xtrapless_queue #(
    parameter QUEUE = 12  // log2 of the most entries; less than 12 is not conformant (DISC-4)
) (
    input  wire        clk,
    input  wire        reset,
    input  wire        write,     // hnqbase becomes `value`.
    input  wire [63:0] value,
    input  wire        push,      // An entry has been stored at the tail.
    input  wire        pop,       // The entry at the head has been loaded or is lost.
    input  wire        overflow,  // A notification was dropped (NTF-5).
    input  wire        report,    // hnotify has reported the overflow.
    input  wire        hold,      // The engine waits for memory, with `address`.
    input  wire        at_head,   // `address` is that of the head instead of the tail.
    output wire [63:0] base,      // hnqbase
    output wire        raised,    // There is an entry, or an overflow to report.
    output wire        open,
    output wire        full,
    output wire        empty,
    output reg         lost,      // An overflow is to be reported.
    output wire [52:0] address    // Bits 55:3 of an entry's address
);
    localparam [3:0] MOST = QUEUE[3:0];

    reg        due;  // A reset that waits
    reg        en;
    reg [43:0] ppn;
    reg [3:0]  size;
    reg [QUEUE:0] head;
    reg [QUEUE:0] tail;

    wire [3:0] size_written = value[`XTL_HNQBASE_SIZE] > MOST ? MOST : value[`XTL_HNQBASE_SIZE];
    // A ring of more than 512 entries is larger than a page (CSR-3).
    wire [2:0] align = {size_written >= 4'd12, size_written >= 4'd11, size_written >= 4'd10};

    wire [QUEUE:0] entries = {{QUEUE{1'b0}}, 1'b1} << size;
    wire [QUEUE:0] used = tail - head;
    wire [QUEUE:0] position = at_head ? head : tail;
    wire [QUEUE:0] index = position & (entries - 1'b1);

    assign open = en;
    assign full = used >= entries;
    assign empty = used == {(QUEUE + 1){1'b0}};
    assign base = due ? 64'b0 : {en, 7'b0, ppn, 8'b0, size};
    assign raised = !due && (!empty || lost);
    // The ring is aligned to its size.
    assign address = {ppn, 9'b0} | {{(53 - QUEUE){1'b0}}, index[QUEUE-1:0]};

    wire unused = &{1'b0, value[62:56], value[11:4], index[QUEUE], 1'b0};

    always @(posedge clk) begin
        due <= (reset || due) && hold;
        if ((reset || due) && !hold) begin
            en <= 1'b0;
            ppn <= 44'b0;
            size <= 4'b0;
            head <= {(QUEUE + 1){1'b0}};
            tail <= {(QUEUE + 1){1'b0}};
            lost <= 1'b0;
        end else if (write) begin
            en <= value[`XTL_HNQBASE_EN];
            if (value[`XTL_HNQBASE_EN]) begin  // NTF-6; else NTF-7
                ppn <= value[`XTL_HNQBASE_PPN] & ~{41'b0, align};
                size <= size_written;
                head <= {(QUEUE + 1){1'b0}};
                tail <= {(QUEUE + 1){1'b0}};
                lost <= 1'b0;
            end
        end else begin
            if (push)
                tail <= tail + 1'b1;
            if (pop)
                head <= head + 1'b1;
            lost <= overflow || (lost && !report);
        end
    end
endmodule
