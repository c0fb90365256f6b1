//! Device rules: an input is a list of rules of eight bytes each. The kernel's verifier must accept the compiled
//! program, and the program's decisions must match the rules.

use cgroup::devices::{Access, Rule, program};
use spec::resources::{DeviceKind, DeviceRule};
use sys::bpf::Instruction;

/// Runs the target on one input; see the module's text.
pub fn target(data: &[u8]) {
    let rules: Vec<DeviceRule> = data.as_chunks().0.iter().map(rule).collect();
    if rules.len() > 64 {
        return;
    }
    let Ok(rules) = Rule::list(&rules) else { return };
    let _ = cgroup::fuzz::legacy(&rules);
    let program = program::assemble(&rules);
    verify(&program);
    let numbers = |pick: fn(&Rule) -> Option<u32>| {
        let own = rules.iter().filter_map(pick).flat_map(|number| [number, number.wrapping_add(1)]);
        own.chain([0, 1, u32::MAX]).collect::<Vec<u32>>()
    };
    let (majors, minors) = (numbers(|rule| rule.major), numbers(|rule| rule.minor));
    let mut all = true;
    for (kind, code) in [(DeviceKind::Block, 1), (DeviceKind::Char, 2)] {
        for (major, minor) in majors.iter().zip(minors.iter().cycle()) {
            for letters in ["r", "w", "m", "rw", "rwm"] {
                let access = Access::from_letters(letters).expect("letters");
                let wanted = is_allowed(&rules, kind, access, *major, *minor);
                let word = u32::from(access.bits()) << 16 | code;
                assert_eq!(run(&program, [word, *major, *minor]), wanted, "{rules:?}");
                all &= wanted;
            }
        }
    }
    assert!(all || !program::allows_everything(&rules));
}

fn rule(bytes: &[u8; 8]) -> DeviceRule {
    let number = |byte: u8| match byte {
        0..=99 => Some(i64::from(byte)),
        100..=149 => None,
        150..=159 => Some(-1),
        160..=169 => Some(i64::from(u32::MAX)),
        170 => Some(i64::MAX),
        _ => Some(i64::from(byte % 4)),
    };
    DeviceRule {
        allow: bytes[0] & 1 == 1,
        kind: [DeviceKind::Char, DeviceKind::Block, DeviceKind::Char, DeviceKind::All]
            [usize::from(bytes[1] % 4)],
        major: number(bytes[2]),
        minor: number(bytes[3]),
        access: "rwmx"
            .chars()
            .enumerate()
            .filter(|(bit, letter)| bytes[4] >> bit & 1 == 1 && (*letter != 'x' || bytes[5] == 9))
            .map(|(_, letter)| letter)
            .collect(),
    }
}

/// Returns whether a rule's number matches a device's. Linux has no device numbers of more than 31 bits, so a larger
/// number in a rule matches no device.
fn is_number(number: Option<u32>, of_device: u32) -> bool {
    number.is_none_or(|number| number == of_device && i32::try_from(number).is_ok())
}

/// Returns the decision that the crate documents for the rules.
fn is_allowed(rules: &[Rule], kind: DeviceKind, access: Access, major: u32, minor: u32) -> bool {
    let decide = |one: Access| {
        rules.iter().fold(false, |allowed, rule| {
            let speaks = rule.kind == DeviceKind::All
                || (rule.kind == kind
                    && rule.access.contains(one)
                    && is_number(rule.major, major)
                    && is_number(rule.minor, minor));
            if speaks { rule.allow } else { allowed }
        })
    };
    let asked = [Access::MKNOD, Access::READ, Access::WRITE];
    asked.into_iter().filter(|one| access.contains(*one)).all(decide)
}

const LOAD_WORD: u8 = 0x61;
const AND: u8 = 0x57;
const SHIFT_RIGHT: u8 = 0x77;
const SET: u8 = 0xb7;
const JUMP: u8 = 0x05;
const JUMP_IF_NOT_EQUAL: u8 = 0x55;
const JUMP_IF_ANY_BIT: u8 = 0x45;
const EXIT: u8 = 0x95;

/// Checks a program as the kernel's verifier does. All operations must be known, and jumps must lead forward within the
/// program. Registers must be set on every path, only whole words of the context may be read, and the program must end
/// with an exit.
fn verify(program: &[Instruction]) {
    assert!(program.len() <= 4096, "BPF_MAXINSNS: {}", program.len());
    // The registers set on every path to an instruction; `None` if no path leads there.
    let mut set: Vec<Option<u16>> = vec![None; program.len() + 1];
    set[0] = Some(1 << 1);
    for (at, insn) in program.iter().enumerate() {
        let known = set[at].expect("code that is never reached");
        let destination = insn.registers & 15;
        let reads =
            |register: u8| assert!(known >> register & 1 == 1, "register {register} at {at}");
        let mut leads = |to: usize, registers: u16| {
            assert!(to > at && to < program.len(), "jump from {at} to {to}");
            set[to] = Some(set[to].unwrap_or(u16::MAX) & registers);
        };
        let target = (at + 1).checked_add_signed(insn.offset.into()).expect("a jump forward");
        match insn.code {
            LOAD_WORD => {
                reads(insn.registers >> 4);
                assert!(insn.registers >> 4 == 1 && [0, 4, 8].contains(&insn.offset));
                leads(at + 1, known | 1 << destination);
            }
            SET => leads(at + 1, known | 1 << destination),
            AND | SHIFT_RIGHT => {
                reads(destination);
                assert!(insn.code == AND || (0..64).contains(&insn.immediate));
                leads(at + 1, known);
            }
            JUMP => leads(target, known),
            JUMP_IF_NOT_EQUAL | JUMP_IF_ANY_BIT => {
                reads(destination);
                leads(target, known);
                leads(at + 1, known);
            }
            EXIT => reads(0),
            code => panic!("operation {code:#x}"),
        }
    }
}

/// Runs a program that [`verify`] accepts on a context.
fn run(program: &[Instruction], context: [u32; 3]) -> bool {
    let (mut registers, mut at) = ([0u64; 16], 0usize);
    loop {
        let insn = program[at];
        let value = &mut registers[usize::from(insn.registers & 15)];
        let immediate = i64::from(insn.immediate) as u64;
        let target = (at + 1).checked_add_signed(insn.offset.into()).expect("a jump forward");
        at += 1;
        match insn.code {
            LOAD_WORD => *value = context[insn.offset as usize / 4].into(),
            SET => *value = immediate,
            AND => *value &= immediate,
            SHIFT_RIGHT => *value >>= immediate,
            JUMP => at = target,
            JUMP_IF_NOT_EQUAL if *value != immediate => at = target,
            JUMP_IF_ANY_BIT if *value & immediate != 0 => at = target,
            EXIT => return registers[0] != 0,
            _ => {}
        }
    }
}
