//! Functions that remember translations, and ask for pages.

use trapless_devices::ats::{
    Completion, GroupResponse, Message, PageRequest, Refusal, ResponseCode, Translation,
    TranslationRequest,
};

use super::*;

const EN_ATS: u64 = 1 << 1;
const EN_PRI: u64 = 1 << 2;
const T2GPA: u64 = 1 << 3;
const PRPR: u64 = 1 << 6;
const PAGES: u64 = RAM + 0x5_0000;
const INVAL: u64 = 4 | DEVICE << 40;
const PRGR: u64 = INVAL | 1 << 7;

impl Rig {
    fn ask(&mut self, address: u64, no_write: bool) -> Result<Translation, Refusal> {
        self.iommu.translation(&TranslationRequest {
            device: DeviceId(DEVICE as u32),
            process: None,
            privileged: false,
            execute: false,
            no_write,
            address,
        })
    }

    /// An access to an address that the device was told.
    fn use_told(&mut self, address: u64, access: Access) -> Option<u64> {
        let request = Request {
            device: DeviceId(DEVICE as u32),
            process: None,
            privileged: false,
            address,
            address_type: AddressType::Translated,
            access,
        };
        match self.iommu.translate(&request).ok()?.target {
            Target::Memory(address) => Some(address),
            Target::Mrif { file, .. } => Some(file),
        }
    }

    fn want(&mut self, process: Option<u32>, address: u64, last: bool) -> Option<GroupResponse> {
        self.iommu.request_page(&PageRequest {
            device: DeviceId(DEVICE as u32),
            process,
            privileged: false,
            execute: false,
            address,
            group: 0x1a5,
            last,
            write: true,
            read: true,
        })
    }

    fn context_of_a_guest(&mut self, tc: u64, flags: u64) {
        let second = self.second_stage(flags);
        self.context(tc, second, 0);
        self.command(INVAL_DDT, 0);
    }

    fn take(&mut self) -> Option<Message> {
        let (device, message) = self.iommu.take_message()?;
        assert_eq!(device.0, DEVICE as u32);
        Some(message)
    }
}

/// What (address, length, may be read, may be written) a translation says.
fn told(answer: Result<Translation, Refusal>) -> (u64, u64, bool, bool) {
    let answer = answer.expect("an answer");
    (answer.address, answer.len, answer.read, answer.write)
}

/// Promise: a device is told what the tables say, with what they forbid instead of a fault, and
/// only if its context allows it to ask.
#[test]
fn translations_are_told() {
    let mut rig = Rig::new();
    rig.context_of_a_guest(EN_ATS, LEAF);
    assert_eq!(
        told(rig.ask(0x3123, false)),
        (DATA + 0x3000, 0x1000, true, true)
    );
    assert_eq!(
        rig.use_told(DATA + 0x3123, Access::Write),
        Some(DATA + 0x3123)
    );
    let nothing = rig.ask(0x7_0000, true).unwrap();
    assert!(!nothing.read && !nothing.write);
    rig.no_fault();
    rig.context_of_a_guest(EN_ATS, READ_ONLY);
    rig.command(GVMA, 0);
    assert_eq!(
        told(rig.ask(0x3000, false)),
        (DATA + 0x3000, 0x1000, true, false)
    );
    rig.context_of_a_guest(0, LEAF);
    assert_eq!(rig.ask(0x3000, false), Err(Refusal::Unsupported));
    assert_eq!(rig.fault(), (260, 0x3000, 0));
    assert_eq!(rig.use_told(DATA, Access::Read), None);
    assert_eq!(rig.fault().0, 260);
    // What is wrong with the tables is reported.
    rig.context_of_a_guest(EN_ATS, LEAF);
    rig.put(SECOND, &[pte(0x7000_0000, 1)]);
    rig.command(GVMA, 0);
    assert_eq!(rig.ask(0x3000, true), Err(Refusal::Aborted));
    assert_eq!(rig.fault().0, 5);
    rig.set64(at::DDTP, 1);
    assert_eq!(rig.ask(0x3000, true), Err(Refusal::Unsupported));
    assert_eq!(rig.fault().0, 260);
    rig.set64(at::DDTP, 0);
    assert_eq!(rig.ask(0x3000, true), Err(Refusal::Unsupported));
    assert_eq!(rig.fault().0, 256);
}

/// Promise: a record says which kind of transaction it was.
#[test]
fn records_name_the_kind_of_transaction() {
    let mut rig = Rig::new();
    let kind = |rig: &mut Rig| {
        let tail = rig.get(at::FQT);
        rig.fault();
        rig.word(FAULTS + (tail + 3) % 4 * 32) >> 34 & 0x3f
    };
    rig.context_of_a_guest(0, LEAF);
    let _ = rig.ask(0, true);
    assert_eq!(kind(&mut rig), 8);
    rig.use_told(0, Access::Execute);
    assert_eq!(kind(&mut rig), 5);
    rig.use_told(0, Access::Read);
    assert_eq!(kind(&mut rig), 6);
    rig.use_told(0, Access::Write);
    assert_eq!(kind(&mut rig), 7);
    rig.want(None, 0x3000, true);
    assert_eq!(rig.fault(), (260, 4, 0), "the code of the message");
}

/// Promise: only the right that is asked for is given at a price: D is set if a device asks for
/// writing where it may write.
#[test]
fn asking_for_less_leaves_pages_clean() {
    const GADE: u64 = 1 << 7;
    let mut rig = Rig::new();
    rig.context_of_a_guest(EN_ATS | GADE, LEAF & !0xc0);
    let entry = SECOND + 0x5000 + 3 * 8;
    assert_eq!(
        told(rig.ask(0x3000, true)),
        (DATA + 0x3000, 0x1000, true, false)
    );
    assert_eq!(rig.word(entry) & 0xc0, 0x40);
    assert_eq!(
        told(rig.ask(0x3000, false)),
        (DATA + 0x3000, 0x1000, true, true)
    );
    assert_eq!(rig.word(entry) & 0xc0, 0xc0);
    // The first stage forbids writing: the second one's page stays clean.
    let mut rig = Rig::new();
    rig.context_of_a_guest(EN_ATS | GADE, LEAF & !0xc0);
    rig.put(DATA + 0x1000, &[pte(0x2000, 1)]);
    rig.put(DATA + 0x2000, &[pte(0x3000, 1)]);
    rig.put(DATA + 0x3000, &[pte(0x7000, READ_ONLY)]);
    rig.context(EN_ATS | GADE, rig.second_stage(LEAF & !0xc0), 8 << 60 | 1);
    rig.command(INVAL_DDT, 0);
    assert_eq!(
        told(rig.ask(0, false)),
        (DATA + 0x7000, 0x1000, true, false)
    );
    assert_eq!(rig.word(SECOND + 0x5000 + 7 * 8) & 0xc0, 0x40);
}

/// Promise: with T2GPA a device learns guest physical addresses only, and reaches with them what
/// its guest has and nothing else.
#[test]
fn guest_addresses_are_translated_again() {
    let mut rig = Rig::new();
    rig.context_of_a_guest(EN_ATS | T2GPA, LEAF);
    assert_eq!(told(rig.ask(0x3123, false)), (0x3000, 0x1000, true, true));
    assert_eq!(rig.use_told(0x3123, Access::Write), Some(DATA + 0x3123));
    assert_eq!(rig.use_told(DATA, Access::Read), None);
    assert_eq!(rig.fault(), (21, DATA, DATA));
    // Its messages as well.
    rig.put(MSI, &[pte(0x2810_0000, 7), 0]);
    assert_eq!(
        told(rig.ask(0x2800_0000, false)),
        (0x2800_0000, 0x1000, true, true)
    );
    assert_eq!(rig.use_told(0x2800_0000, Access::Write), Some(0x2810_0000));
    rig.context(EN_ATS | T2GPA, 0, 0);
    rig.command(INVAL_DDT, 0);
    assert_eq!(rig.ask(0, true), Err(Refusal::Unsupported));
    assert_eq!(rig.fault().0, 259, "no guest");
}

/// Promise: the range that is told is as large as what both stages say of it alike, and holds no
/// interrupt file that it is not about.
#[test]
fn ranges_are_as_large_as_leaves() {
    let mut rig = Rig::new();
    rig.context_of_a_guest(EN_ATS, LEAF);
    let large = RAM & !0x1f_ffff;
    rig.put(SECOND + 0x4000 + 8, &[pte(large, LEAF)]);
    assert_eq!(
        told(rig.ask(0x20_3000, true)),
        (large, 0x20_0000, true, true)
    );
    // Two interrupt files are in the second GiB.
    rig.put(SECOND, &[pte(0x8000_0000, LEAF)]);
    rig.command(GVMA, 0);
    assert_eq!(
        told(rig.ask(0x2812_3000, true)),
        (0xa812_3000, 0x1000, true, true)
    );
    assert_eq!(
        told(rig.ask(0x2840_3000, true)),
        (0xa840_0000, 0x20_0000, true, true)
    );
    rig.put(MSI, &[MRIF >> 2 | 3, 0]);
    let file = rig.ask(0x2800_0000, false).unwrap();
    assert!(file.untranslated_only && file.write && file.len == 0x1000);
    // A first stage may forbid to write there.
    rig.put(SECOND, &[pte(SECOND + 0x4000, 1)]);
    rig.command(GVMA, 0);
    rig.put(DATA + 0x1000, &[pte(0x2000, 1)]);
    rig.put(DATA + 0x2000, &[pte(0x3000, 1)]);
    rig.put(DATA + 0x3000, &[pte(0x2800_0000, READ_ONLY)]);
    rig.context(EN_ATS, rig.second_stage(LEAF), 8 << 60 | 1);
    rig.command(INVAL_DDT, 0);
    let file = rig.ask(0, false).unwrap();
    assert!(file.untranslated_only && file.read && !file.write);
    rig.context(EN_ATS, 0, 0);
    rig.command(INVAL_DDT, 0);
    assert_eq!(
        told(rig.ask(0x5234_5678, true)),
        (0x4000_0000, 1 << 30, true, true)
    );
}

/// Promise: privilege and execution are a process's; what a process may execute it may read, and
/// what is in a table for all of them is global.
#[test]
fn processes_ask_for_more() {
    const PDTV: u64 = 1 << 5;
    let mut rig = Rig::new();
    let pdt = RAM + 0x4_0000;
    let first = rig.first_stage(LEAF);
    rig.context(EN_ATS | PDTV, 0, 1 << 60 | pdt >> 12);
    // V, ENS, SUM.
    rig.put(pdt + 7 * 16, &[7, first]);
    // The second page is for execution only, and the upper table for all processes.
    rig.put(FIRST + 0x2000 + 8, &[pte(DATA, 0xd9)]);
    rig.put(FIRST + 8, &[pte(FIRST + 0x1000, 1 | 1 << 5)]);
    let ask = |rig: &mut Rig, process, privileged, address| {
        let request = TranslationRequest {
            device: DeviceId(DEVICE as u32),
            process,
            privileged,
            execute: true,
            no_write: true,
            address,
        };
        rig.iommu.translation(&request).unwrap()
    };
    let told = ask(&mut rig, Some(7), false, 0x4000_0000);
    assert!(told.execute && told.global && !told.privileged);
    let told = ask(&mut rig, Some(7), false, 0x4000_1000);
    assert!(!told.execute && !told.read);
    let told = ask(&mut rig, Some(7), true, 0x4000_0000);
    assert!(
        told.privileged && !told.read,
        "a user's page is not executed"
    );
    let told = ask(&mut rig, None, true, 0x4000_0000);
    assert!(told.read && !told.execute && !told.global && !told.privileged);
    // What is wrong with the tables has the cause of a fetch.
    let root = rig.word(FIRST + 8);
    rig.put(FIRST + 8, &[pte(0x7000_0000, 1)]);
    rig.command(VMA, 0);
    let request = TranslationRequest {
        device: DeviceId(DEVICE as u32),
        process: Some(7),
        privileged: false,
        execute: true,
        no_write: true,
        address: 0x4000_0000,
    };
    assert_eq!(rig.iommu.translation(&request), Err(Refusal::Aborted));
    assert_eq!(rig.fault().0, 1);
    rig.put(FIRST + 8, &[root]);
    let wide = Request {
        device: DeviceId(DEVICE as u32),
        process: Some(256),
        privileged: false,
        address: DATA,
        address_type: AddressType::Translated,
        access: Access::Read,
    };
    assert!(rig.iommu.translate(&wide).is_err());
    assert_eq!(rig.fault().0, 260);
    // Without processes nothing holds for all of them.
    rig.context(EN_ATS, 0, first);
    rig.command(INVAL_DDT, 0);
    let told = ask(&mut rig, None, false, 0x4000_0000);
    assert!(told.read && !told.global);
}

/// Promise: page requests arrive in the queue and interrupt; those that cannot are answered as the
/// cause says, if they want an answer.
#[test]
fn page_requests_are_queued_or_answered() {
    let mut rig = Rig::new();
    let answer = |code, process| {
        Some(GroupResponse {
            process,
            group: 0x1a5,
            code,
        })
    };
    rig.context_of_a_guest(EN_ATS | EN_PRI, LEAF);
    let failure = answer(ResponseCode::Failure, Some(9));
    assert_eq!(rig.want(Some(9), 0x3000, true), failure, "the queue is off");
    assert_eq!(rig.want(Some(9), 0x3000, false), None);
    rig.set(at::FCTL, 2);
    rig.set64(at::ICVEC, 2 << 12);
    rig.set64(at::PQB, PAGES >> 2);
    rig.set(at::PQCSR, 3);
    assert_eq!(rig.get(at::PQCSR), 3 | 1 << 16);
    assert_eq!(rig.want(Some(9), 0x3000, true), None);
    assert_eq!(
        (rig.get(at::PQH), rig.get(at::PQT), rig.get(at::IPSR)),
        (0, 1, 8)
    );
    assert!(rig.wires[2].0.load(Relaxed));
    let first = DEVICE << 40 | 1 << 32 | 9 << 12;
    assert_eq!(rig.word(PAGES), first);
    assert_eq!(rig.word(PAGES + 8), 0x3000 | 0x1a5 << 3 | 7);
    // Two entries are one too many.
    let success = answer(ResponseCode::Success, None);
    assert_eq!(rig.want(Some(9), 0x4000, true), success);
    assert_eq!(rig.get(at::PQCSR) >> 8 & 3, 2);
    rig.set(at::PQH, 1);
    assert_eq!(
        rig.want(Some(9), 0x4000, true),
        success,
        "until it is cleared"
    );
    rig.set(at::IPSR, 8);
    assert_eq!(rig.get(at::IPSR), 8, "the error is still there");
    rig.set(at::PQCSR, 3 | 1 << 9);
    rig.set(at::IPSR, 8);
    assert_eq!(rig.get(at::IPSR), 0);
    rig.set(at::PQCSR, 0);
    rig.set64(at::PQB, 0x7000_0000 >> 2);
    rig.set(at::PQCSR, 1);
    assert_eq!(rig.want(Some(9), 0x4000, true), failure, "no memory");
    assert_eq!(rig.get(at::PQCSR) >> 8 & 3, 1);
    rig.set(at::PQH, 1);
    let again = rig.want(Some(9), 0x4000, true);
    assert_eq!(again, failure, "although it is full");
    rig.no_fault();
    // Who may not ask learns that, with the process ID if the device wants it.
    rig.context_of_a_guest(EN_ATS, LEAF);
    let invalid = answer(ResponseCode::InvalidRequest, None);
    assert_eq!(rig.want(Some(9), 0x4000, true), invalid);
    rig.context_of_a_guest(EN_ATS | EN_PRI | PRPR, LEAF);
    let success = answer(ResponseCode::Success, Some(9));
    rig.set(at::PQCSR, 0);
    rig.set64(at::PQB, PAGES >> 2);
    rig.set(at::PQCSR, 1);
    assert_eq!(rig.want(Some(9), 0, true), None);
    assert_eq!(rig.want(Some(9), 0, true), success);
    rig.set64(at::DDTP, 1);
    assert_eq!(rig.want(Some(9), 0x4000, true), invalid);
    rig.set64(at::DDTP, 0);
    assert_eq!(rig.want(Some(9), 0x4000, true), failure);
    // A Stop Marker, which a process sends, wants no answer.
    let mut stop = |process| {
        rig.iommu.request_page(&PageRequest {
            device: DeviceId(DEVICE as u32),
            process,
            privileged: false,
            execute: false,
            address: 0,
            group: 0,
            last: true,
            write: false,
            read: false,
        })
    };
    assert_eq!(stop(Some(9)), None);
    assert!(stop(None).is_some());
    // Privilege and execution are in the record.
    rig.context_of_a_guest(EN_ATS | EN_PRI, LEAF);
    rig.set64(at::DDTP, DDT >> 2 | 2);
    rig.set(at::PQCSR, 0);
    rig.set(at::PQCSR, 1);
    rig.set(at::PQH, 0);
    let request = PageRequest {
        device: DeviceId(DEVICE as u32),
        process: Some(9),
        privileged: true,
        execute: true,
        address: 0,
        group: 0,
        last: true,
        write: false,
        read: true,
    };
    assert_eq!(rig.iommu.request_page(&request), None);
    assert_eq!(rig.word(PAGES), first | 3 << 33);
}

/// Promise: a fence waits until functions have forgotten, and says if one has not answered.
#[test]
fn fences_wait_for_functions() {
    let mut rig = Rig::new();
    rig.command(INVAL | 1 << 32 | 9 << 12, 0x3000 | 1);
    // 8 KiB around 0x5000, and everything.
    rig.command(INVAL, 0x4000 | 1 << 11);
    rig.command(INVAL, (u64::MAX >> 1) & !0xfff | 1 << 11);
    rig.command(2 | AV | 0x55 << 32, (DATA + 8) >> 2);
    assert_eq!(rig.get(at::CQH), 3, "at the fence");
    assert_eq!(rig.word(DATA + 8), 0);
    for (tag, process, global, first, last) in [
        (0, Some(9), true, 0x3000, 0x3fff),
        (1, None, false, 0x4000, 0x5fff),
        (2, None, false, 0, u64::MAX),
    ] {
        let Some(Message::Invalidate(request)) = rig.take() else {
            panic!("an Invalidate Request");
        };
        assert_eq!(
            (request.tag, request.process, request.global),
            (tag, process, global)
        );
        assert_eq!((request.first, request.last), (first, last));
    }
    assert!(!rig.iommu.has_messages());
    let completion = |device, tags, count| Completion {
        device: DeviceId(device),
        tags,
        count,
    };
    rig.iommu.complete(&completion(DEVICE as u32 + 1, 7, 1));
    rig.iommu.complete(&completion(DEVICE as u32, 0b101, 1));
    rig.iommu.complete(&completion(DEVICE as u32, 0b010, 2));
    assert_eq!(rig.word(DATA + 8), 0, "one of two");
    rig.iommu.complete(&completion(DEVICE as u32, 0b010, 2));
    assert_eq!(rig.word(DATA + 8), 0x55);
    assert_eq!(rig.get(at::CQH), 4);
    rig.command(INVAL, 0x3000);
    rig.command(2 | AV | 0x66 << 32, (DATA + 8) >> 2);
    rig.iommu.time_out(0);
    assert_eq!((rig.get(at::CQCSR) >> 8 & 0xf, rig.get(at::CQH)), (2, 5));
    assert_eq!(rig.get(at::IPSR), 1);
    rig.set(at::CQCSR, 3 | 1 << 9);
    assert_eq!(rig.word(DATA + 8), 0x66, "told once");
}

/// Promise: a message goes to the function that the command names, in another segment if that is
/// given; reserved bits make it none.
#[test]
fn commands_name_functions() {
    let mut rig = Rig::new();
    rig.command(PRGR | 7 << 56, 0);
    rig.command(PRGR | 7 << 56 | 1 << 33, 0);
    let devices = [(); 2].map(|()| rig.iommu.take_message().unwrap().0.0);
    assert_eq!(devices, [DEVICE as u32, 7 << 16 | DEVICE as u32]);
    for wrong in [
        INVAL | 1 << 10,
        PRGR | 1 << 11,
        INVAL | 1 << 34,
        PRGR | 1 << 39,
    ] {
        rig.command(wrong, 0);
        assert_eq!(rig.get(at::CQCSR) & 1 << 10, 1 << 10, "{wrong:#x}");
        rig.set(at::CQT, rig.get(at::CQH) as u32);
        rig.set(at::CQCSR, 3 | 1 << 10);
    }
    assert!(!rig.iommu.has_messages());
}

/// Promise: commands wait while no tag is free or too many messages are on their way, and none is
/// lost.
#[test]
fn commands_wait_for_room() {
    let mut rig = Rig::new();
    rig.set(at::CQCSR, 0);
    rig.set64(at::CQB, (RAM + 0x6_0000) >> 2 | 7);
    rig.set(at::CQCSR, 3);
    for n in 0..200 {
        let command = if n < 40 { INVAL } else { PRGR };
        rig.put(RAM + 0x6_0000 + n * 16, &[command, n << 32]);
    }
    rig.set(at::CQT, 200);
    assert_eq!(rig.get(at::CQH), 32, "there are 32 tags");
    let mut answers = Vec::new();
    while let Some(message) = rig.take() {
        match message {
            Message::Invalidate(request) => rig.iommu.complete(&Completion {
                device: DeviceId(DEVICE as u32),
                tags: 1 << request.tag,
                count: 1,
            }),
            Message::Respond(response) => answers.push(u64::from(response.group)),
        }
        assert!(rig.iommu.state.messages.is_sound());
    }
    assert_eq!(rig.get(at::CQH), 200);
    assert!(answers.into_iter().eq(40..200));
    assert!(!rig.iommu.state.messages.are_pending());
}
