// SPDX-License-Identifier: Apache-2.0 OR MIT
// Properties of single steps of Xvei, for yosys-smtbmc: by induction, for pages, tables and queues
// of any contents, memory that answers at any time and with errors, requests that change at any
// time, and harts that are reset at any time.

`include "generated/haiov.vh"
`include "port.vh"
`include "xvei/xvei.vh"

module events (
    input wire clk
);
    localparam HARTS = 2;

    `include "xvei/steps.vh"

    (* anyseq *) wire [HARTS-1:0]    hart_reset, req_valid, req_page, withdraw;
    (* anyseq *) wire [12*HARTS-1:0] req_csr, req_offset;
    (* anyseq *) wire [3*HARTS-1:0]  req_op, req_mode;
    (* anyseq *) wire [64*HARTS-1:0] req_operand;
    (* anyseq *) wire [44*HARTS-1:0] req_ppn;
    (* anyseq *) wire [2*HARTS-1:0]  req_width;
    (* anyseq *) wire                mem_ack, mem_err;
    (* anyseq *) wire [63:0]         mem_rdata;
    reg begun = 1'b0;
    wire mem_req;
    wire [1:0] mem_op;
    wire [55:3] mem_addr;
    wire [5:0] mem_hart;
    wire [63:0] mem_mask, mem_wdata;
    wire [HARTS-1:0] irq;

    xvei #(.HARTS(HARTS), .QUEUE(2)) dut (
        .clk(clk), .reset(!begun), .hart_reset(hart_reset), .req_valid(req_valid),
        .req_page(req_page), .req_csr(req_csr), .req_op(req_op), .req_mode(req_mode),
        .req_operand(req_operand), .req_ppn(req_ppn), .req_offset(req_offset),
        .req_width(req_width), .withdraw(withdraw), .rsp_valid(), .rsp_data(), .rsp_fault(),
        .rsp_retry(), .irq(irq), .mem_req(mem_req), .mem_op(mem_op), .mem_hart(mem_hart),
        .mem_addr(mem_addr), .mem_mask(mem_mask), .mem_wdata(mem_wdata), .mem_ack(mem_ack),
        .mem_err(mem_err), .mem_rdata(mem_rdata), .job_busy(), .job_end(), .job_hart());

    // Registers of it, by the names that they have when all is flattened.
    (* hierconn *) wire [3:0]  \dut.engine.state ;
    (* hierconn *) wire [2:0]  \dut.engine.job ;
    (* hierconn *) wire        \dut.engine.load ;
    (* hierconn *) wire [63:0] \dut.engine.operand ;
    (* hierconn *) wire [43:0] \dut.engine.page ;
    (* hierconn *) wire [11:0] \dut.engine.offset ;
    (* hierconn *) wire [1:0]  \dut.engine.width ;
    (* hierconn *) wire [7:0]  \dut.engine.count ;
    (* hierconn *) wire [7:0]  \dut.engine.index ;
    (* hierconn *) wire        \dut.engine.clears ;
    (* hierconn *) wire        \dut.engine.posts ;
    (* hierconn *) wire [9:0]  \dut.engine.unit ;
    (* hierconn *) wire        \dut.engine.exists ;
    (* hierconn *) wire        \dut.engine.shadow_v ;
    (* hierconn *) wire [43:0] \dut.engine.shadow ;
    (* hierconn *) wire [51:0] \dut.engine.entry ;
    (* hierconn *) wire [0:0]  \dut.engine.hart ;
    (* hierconn *) wire [0:0]  \dut.engine.who ;
    (* hierconn *) wire [1:0]  \dut.engine.fault ;
    (* hierconn *) wire        \dut.engine.retry ;
    (* hierconn *) wire [31:0] \dut.engine.id ;
    (* hierconn *) wire        \dut.engine.queue_push ;
    (* hierconn *) wire [53*HARTS-1:0] \dut.queue_addresses ;
    (* hierconn *) wire [2:0]  \dut.harts[0].unit.queue.tail ;
    (* hierconn *) wire [2:0]  \dut.harts[1].unit.queue.tail ;
    wire [5:0] tails = {\dut.harts[1].unit.queue.tail , \dut.harts[0].unit.queue.tail };
    (* hierconn *) wire [63:0] \dut.harts[0].unit.base ;
    (* hierconn *) wire [63:0] \dut.harts[1].unit.base ;
    wire [127:0] bases = {\dut.harts[1].unit.base , \dut.harts[0].unit.base };
    (* hierconn *) wire        \dut.harts[0].unit.dead ;
    (* hierconn *) wire        \dut.harts[1].unit.dead ;
    wire [1:0] dead = {\dut.harts[1].unit.dead , \dut.harts[0].unit.dead };
    (* hierconn *) wire        \dut.harts[0].unit.queue.due ;
    (* hierconn *) wire        \dut.harts[1].unit.queue.due ;
    wire [1:0] due = {\dut.harts[1].unit.queue.due , \dut.harts[0].unit.queue.due };
    (* hierconn *) wire        \dut.harts[0].unit.flt ;
    (* hierconn *) wire        \dut.harts[1].unit.flt ;
    (* hierconn *) wire        \dut.harts[0].unit.new_access ;
    (* hierconn *) wire        \dut.harts[1].unit.new_access ;
    wire [1:0] begins = {\dut.harts[1].unit.new_access , \dut.harts[0].unit.new_access };
    (* hierconn *) wire [1:0]  \dut.harts[0].unit.state ;
    (* hierconn *) wire [1:0]  \dut.harts[1].unit.state ;
    wire [3:0] units = {\dut.harts[1].unit.state , \dut.harts[0].unit.state };
    wire [1:0] faults = {\dut.harts[1].unit.flt , \dut.harts[0].unit.flt };
    (* hierconn *) wire [HARTS-1:0] \dut.queues_open ;
    (* hierconn *) wire [HARTS-1:0] \dut.tables_v ;
    (* hierconn *) wire [44*HARTS-1:0] \dut.tables_ppn ;
    (* hierconn *) wire [4*HARTS-1:0] \dut.tables_size ;
    wire [3:0] state = \dut.engine.state ;
    wire [2:0] job = \dut.engine.job ;
    wire [0:0] hart = \dut.engine.hart ;
    wire stores = mem_req && mem_op != `MEM_LOAD;
    wire searches = state == MATCH || state == VALUE;
    wire looks = state == HEADER || state == SHADOW || state == LOADS || state == READ
        || state == DECIDE || state == CHECK || searches;

    // What memory has said in this job: of the shadow, of the doorbell that matches, of its entry.
    reg shadow_v, matched, clears, posts, valid, stored_any;
    reg [43:0] shadow;
    reg [9:0] unit;
    reg [15:0] request;
    reg table_v;
    reg [43:0] table_ppn;
    reg [3:0] table_size;
    wire answers = mem_ack && !mem_err && mem_req;
    wire [63:0] ones = \dut.engine.width == 2'd3 ? 64'hffffffffffffffff
        : \dut.engine.width == 2'd2 ? 64'hffffffff : \dut.engine.width == 2'd1 ? 64'hffff : 64'hff;
    wire fits = mem_rdata[`HAIOV_BELL_MATCH_V]
        && mem_rdata[`HAIOV_BELL_MATCH_OFFSET] == \dut.engine.offset
        && (mem_rdata[`HAIOV_BELL_MATCH_ANY]
            || mem_rdata[`HAIOV_BELL_MATCH_WIDTH] == \dut.engine.width );
    wire named = state == START && job == `XVEI_JOB_REQUEST;
    always @(posedge clk) begin
        begun <= 1'b1;
        if (state == START) begin
            {shadow_v, matched, clears, posts, valid, stored_any} <= 6'b0;
            request <= \dut.engine.operand [`HAIOV_SGENVEI_REQUEST];
        end else begin
            if (state == SHADOW && mem_ack) begin
                shadow_v <= !mem_err && mem_rdata[`HAIOV_BELL_SHADOW_V];
                shadow <= mem_rdata[`HAIOV_BELL_SHADOW_PPN];
            end
            if (state == MATCH && mem_ack) begin
                matched <= !mem_err && fits && !mem_rdata[`HAIOV_BELL_MATCH_DATA];
                clears <= mem_rdata[`HAIOV_BELL_MATCH_CLEAR];
                posts <= mem_rdata[`HAIOV_BELL_MATCH_POST];
                unit <= mem_rdata[`HAIOV_BELL_MATCH_UNIT];
                request <= mem_rdata[`HAIOV_BELL_MATCH_REQUEST];
            end
            if (state == VALUE && mem_ack)
                matched <= !mem_err && mem_rdata == (\dut.engine.operand & ones);
            if (state == CHECK && mem_ack)
                valid <= !mem_err && mem_rdata[`HAIOV_EVENT_CTL_V];
            if (stores && answers)
                stored_any <= 1'b1;
        end
        // The table of the hart when its entry is named: it may be reset afterwards.
        if (named || state == MATCH) begin
            table_v <= \dut.tables_v [hart];
            table_ppn <= \dut.tables_ppn [44*hart+:44];
            table_size <= \dut.tables_size [4*hart+:4];
        end
    end
    wire own = job == `XVEI_JOB_REQUEST || job == `XVEI_JOB_PAGE;
    wire [51:0] own_entry = {table_ppn, 8'b0} | {36'b0, request};
    wire own_exists = table_v && (request >> table_size) == 16'b0;

    // An event is told of in the cycle after its mark, and only then.
    reg told, told_before = 1'b0;
    reg [0:0] told_to;
    reg [31:0] told_id;
    always @(posedge clk) begin
        told_before <= begun && state == MARK && mem_ack;
        told <= !mem_err && mem_rdata[`HAIOV_EVENT_CTL_V] && !mem_rdata[`HAIOV_EVENT_CTL_P]
            && !mem_rdata[`HAIOV_EVENT_CTL_M]
            && mem_rdata[`HAIOV_EVENT_CTL_KIND] == `HAIOV_TARGET_HART
            && mem_rdata[`HAIOV_EVENT_CTL_HART] < HARTS
            && \dut.queues_open [mem_rdata[16]];
        if (state == MARK) begin
            told_to <= mem_rdata[16];
            told_id <= mem_rdata[`HAIOV_EVENT_CTL_ID];
        end
    end

    // How far a job is: the steps have their numbers in this order.
    wire [12:0] far = {state == VALUE ? MATCH : state,
        searches ? {\dut.engine.index , state == VALUE} : 9'b0};
    reg [12:0] far_before;
    reg steps_before = 1'b0;
    always @(posedge clk) begin
        far_before <= far;
        steps_before <= begun && state != IDLE && state != FINISH && (!mem_req || mem_ack);
    end

    // What was so in the cycle before.
    reg waits_before = 1'b0, gives_up_before = 1'b0, begun_before = 1'b0, pushes_before;
    reg [HARTS-1:0] fresh = {HARTS{1'b0}};  // Reset, and nothing accessed since.
    reg [1:0] op_before;
    reg [5:0] hart_before;
    reg [55:3] addr_before;
    reg [63:0] mask_before, wdata_before;
    reg [5:0] tails_before;
    reg [0:0] who_before;
    always @(posedge clk) begin
        begun_before <= begun;
        waits_before <= begun && mem_req && !mem_ack;
        gives_up_before <= begun && looks && mem_req && mem_ack && withdraw[hart];
        pushes_before <= \dut.engine.queue_push ;
        fresh <= {HARTS{!begun}} | hart_reset | (fresh & ~begins);
        {op_before, hart_before, addr_before} <= {mem_op, mem_hart, mem_addr};
        {mask_before, wdata_before} <= {mem_mask, mem_wdata};
        tails_before <= tails;
        who_before <= \dut.engine.who ;
    end

    integer h;
    always @* begin
        if (begun) begin
            // What all of it needs: the steps of a job, and what it knows of what memory has said.
            assert (state <= FINISH && (state == IDLE || job <= `XVEI_JOB_PAGE));
            if (state == MARK)
                assert (job != `XVEI_JOB_CLAIM && job != `XVEI_JOB_QUEUE);
            if (looks || state == CLEAR)
                assert (job == `XVEI_JOB_PAGE && !stored_any && !\dut.engine.retry );
            if (state == LOADS || state == READ)
                assert (\dut.engine.load && \dut.engine.shadow_v );
            if (searches || state == DECIDE || state == CHECK || state == CLEAR)
                assert (!\dut.engine.load );
            if (state == HEADER || state == SHADOW)
                assert (\dut.engine.index == 8'd0);
            if (state == SHADOW || searches)
                assert (\dut.engine.count <= `HAIOV_MAX_DOORBELLS);
            if (searches)
                assert (\dut.engine.index < \dut.engine.count );
            if (state == POP)
                assert (job == `XVEI_JOB_CLAIM);
            if (state == LOADS || state == READ || searches || state == DECIDE || state == CHECK
                    || state == CLEAR)
                assert (\dut.engine.shadow_v == shadow_v
                    && (!shadow_v || \dut.engine.shadow == shadow));
            if (state == VALUE || state == DECIDE || state == CHECK || state == CLEAR
                    || (state == MARK && job == `XVEI_JOB_PAGE))
                assert (\dut.engine.clears == clears && \dut.engine.posts == posts
                    && \dut.engine.unit == unit && \dut.engine.exists == own_exists
                    && (!own_exists || \dut.engine.entry == own_entry));
            assert (\dut.tables_size [3:0] <= 4'd10 && \dut.tables_size [7:4] <= 4'd10);
            if (state == VALUE || state == DECIDE || state == CHECK || state == CLEAR
                    || (state == MARK && own))
                assert (table_size <= 4'd10);
            if (state == CHECK || (state == MARK && job == `XVEI_JOB_PAGE))
                assert (posts);
            if (state == CHECK || (state == CLEAR && posts) || (state == MARK && own))
                assert (own_exists);
            if (state == START || state == POP || state == MARK || state == PUSH)
                assert (!\dut.engine.retry );
            if (state == START || state == POP || state == PUSH)
                assert (\dut.engine.fault == `FAULT_NONE);
        end
`ifdef PROVE_page
        if (begun) begin
            // What memory is asked for is what the step is about.
            case (state)
                HEADER: assert (mem_addr == {\dut.engine.page , 9'd0});
                SHADOW: assert (mem_addr == {\dut.engine.page , 9'd1});
                LOADS: assert (mem_addr
                    == {\dut.engine.page , 5'b00001, \dut.engine.offset [11:8]});
                READ: assert (mem_addr == {shadow, \dut.engine.offset [11:3]});
                MATCH: assert (mem_addr == {\dut.engine.page , 9'd32 + {\dut.engine.index , 1'b0}});
                VALUE: assert (mem_addr == {\dut.engine.page , 9'd33 + {\dut.engine.index , 1'b0}});
                CHECK: assert (mem_addr == {own_entry, 1'b0});
                default: ;
            endcase
            if (looks)
                assert (!stores);
            // A store changes the shadow and an entry only by a doorbell that matches it and has
            // all that it needs.
            if (state == DECIDE || state == CHECK || state == CLEAR
                    || (state == MARK && job == `XVEI_JOB_PAGE))
                assert (matched);
            if (state == CLEAR)
                assert (clears && shadow_v && (!posts || valid));
            if (state == MARK && job == `XVEI_JOB_PAGE)
                assert (valid && (!clears || (shadow_v && stored_any)));
            if (stores && state == CLEAR)
                assert (mem_addr == {shadow, unit[9:1]} && mem_op == `MEM_MERGE
                    && mem_wdata == 64'b0 && (mem_mask & ~(64'hffffffff << (unit[0] ? 32 : 0)))
                    == 64'b0);
            if (stores)
                assert (state == CLEAR || state == MARK || state == PUSH);
            // An access is answered with a fault, or given up, only if it has changed nothing.
            if (state == FINISH && (\dut.engine.retry || \dut.engine.fault != `FAULT_NONE))
                assert (!stored_any);
        end
`endif
`ifdef PROVE_event
        if (begun) begin
            // A guest marks entries of the table of its hart only,
            if (state == MARK && own)
                assert (mem_addr == {own_entry, 1'b0});
            // the host the one that it names; nothing of them but P.
            if (state == MARK && job == `XVEI_JOB_ENTRY)
                assert (mem_addr == {\dut.engine.operand [`HAIOV_HGENVEI_ENTRY], 1'b0});
            if (state == MARK)
                assert (mem_op == `MEM_MARK && mem_mask == 64'd1 << `HAIOV_EVENT_CTL_P
                    && mem_wdata == mem_mask);
            // Whoever is to be told of it is told, and nobody else.
            if (told_before)
                assert ((state == PUSH) == told && (!told || \dut.engine.who == told_to));
            if (state == PUSH && !told_before)
                assert (\dut.engine.who == told_to);
            if (state == PUSH)
                assert (\dut.engine.id == told_id);
            if (state == PUSH && mem_req)
                assert (mem_op == `MEM_STORE && mem_wdata == {32'b0, told_id}
                    && mem_addr == \dut.queue_addresses [53*told_to+:53]
                    && \dut.queues_open [told_to]);
            // A queue that gets longer is the one to which this was stored.
            for (h = 0; h < HARTS; h = h + 1)
                if (begun_before && tails[3*h+:3] != tails_before[3*h+:3] && tails[3*h+:3] != 3'd0)
                    assert (pushes_before && who_before == h);
        end
`endif
`ifdef PROVE_event_ends
        if (begun && steps_before)
            assert (far > far_before);
        if (begun && gives_up_before)
            assert (state == FINISH && \dut.engine.retry );
`endif
`ifdef PROVE_event_port
        if (begun) begin
            // A request stays as it is until it is answered, and is that of the hart of the job.
            if (waits_before)
                assert (mem_req && op_before == mem_op && hart_before == mem_hart
                    && addr_before == mem_addr && mask_before == mem_mask
                    && wdata_before == mem_wdata);
            assert (mem_hart == hart);
            if (!begun_before)
                assert (state == IDLE);
            // A hart that has been reset has nothing of before, whatever job of then goes on.
            for (h = 0; h < HARTS; h = h + 1) begin
                if (dead[h])
                    assert (fresh[h]);
                if (begun_before && due[h])
                    assert (dead[h] && (state == PUSH || state == POP) && \dut.engine.who == h);
                if (fresh[h])
                    assert (units[2*h+:2] == 2'd0 && (state == IDLE || hart != h || dead[h]));
            end
            for (h = 0; h < HARTS; h = h + 1)
                if (fresh[h])
                    assert (!\dut.tables_v [h] && bases[64*h+:64] == 64'b0 && !faults[h]
                        && !irq[h]);
        end
`endif
    end
endmodule
