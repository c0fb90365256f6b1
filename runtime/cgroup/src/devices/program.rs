//! Device rules as an eBPF program of type BPF_PROG_TYPE_CGROUP_DEVICE (Linux 4.15), assembled here.
//!
//! The program checks the rules from the last to the first, so the first matching rule decides an access bit. A denied
//! bit ends the program; allowed bits are cleared until none is left. Unlike the v1 files, the program supports
//! exceptions to wildcard rules.

use alloc::vec::Vec;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use spec::resources::{DeviceKind, DeviceRule};
use sys::bpf::{self, Instruction};
use sys::{Context, Errno};

use super::{Access, Rule};
use crate::Error;
use crate::directory::Directory;

// Operation codes: class, size or source, operation (instruction-set.rst).
const LOAD_WORD: u8 = 0x61;
const AND: u8 = 0x57;
const SHIFT_RIGHT: u8 = 0x77;
const SET: u8 = 0xb7;
const JUMP: u8 = 0x05;
const JUMP_IF_NOT_EQUAL: u8 = 0x55;
const JUMP_IF_ANY_BIT: u8 = 0x45;
const EXIT: u8 = 0x95;

// Registers: the return value, the context argument, and the values computed from it.
const RESULT: u8 = 0;
const CONTEXT: u8 = 1;
const KIND: u8 = 2;
const WANTED: u8 = 3;
const MAJOR: u8 = 4;
const MINOR: u8 = 5;

// BPF_DEVCG_DEV_* in linux/bpf.h.
const BLOCK: i32 = 1;
const CHAR: i32 = 2;

/// Assembles `rules`. Deterministic: the same rules give the same program.
pub fn assemble(rules: &[Rule]) -> Vec<Instruction> {
    let decisive = Decisive::new(rules);
    let mut program = Vec::with_capacity(8 + 6 * decisive.rules.len());
    // struct bpf_cgroup_dev_ctx: access and kind in one word, major, minor.
    program.extend([
        load(KIND, 0),
        load(WANTED, 0),
        immediate(AND, KIND, 0xffff),
        immediate(SHIFT_RIGHT, WANTED, 16),
        load(MAJOR, 4),
        load(MINOR, 8),
    ]);
    for rule in &decisive.rules {
        append(&mut program, rule);
    }
    program.extend(end(decisive.otherwise));
    program
}

/// Returns the device program that a new cgroup v2 directory needs for these rules, if any.
///
/// # Errors
/// [`Error::Invalid`] for an invalid rule.
pub fn of_new(rules: &[DeviceRule]) -> Result<Option<Vec<Instruction>>, Error> {
    let rules = Rule::list(rules)?;
    let needed = !rules.is_empty() && !allows_everything(&rules);
    Ok(needed.then(|| assemble(&rules)))
}

/// Returns whether `rules` deny nothing, so that a new cgroup needs no program.
pub fn allows_everything(rules: &[Rule]) -> bool {
    let decisive = Decisive::new(rules);
    decisive.otherwise && decisive.rules.is_empty()
}

/// The relevant rules, the last one first, and the default for all other accesses.
struct Decisive {
    rules: Vec<Rule>,
    otherwise: bool,
}

impl Decisive {
    fn new(rules: &[Rule]) -> Self {
        let mut decisive = Self { rules: Vec::with_capacity(rules.len()), otherwise: false };
        for rule in rules.iter().rev() {
            if rule.kind == DeviceKind::All {
                decisive.otherwise = rule.allow;
                break;
            }
            let decided = |later: &Rule| later.covers(rule) && later.access.contains(rule.access);
            if !decisive.rules.iter().any(decided) {
                decisive.rules.push(*rule);
            }
        }
        // Trailing rules here that equal the default are redundant.
        while decisive.rules.last().is_some_and(|rule| rule.allow == decisive.otherwise) {
            decisive.rules.pop();
        }
        decisive
    }
}

/// Appends the instructions of one rule; a jump skips them for other devices.
fn append(program: &mut Vec<Instruction>, rule: &Rule) {
    let mask = i32::from(rule.access.bits());
    let verdict: &[Instruction] = match (rule.allow, rule.access) {
        // The rule covers every access bit that is still open.
        (allow, Access::ALL) => &end(allow),
        (true, _) => &[
            immediate(AND, WANTED, i32::from(Access::ALL.bits()) & !mask),
            jump(JUMP_IF_NOT_EQUAL, WANTED, 0, 2),
            end(true)[0],
            end(true)[1],
        ],
        (false, _) => &[
            jump(JUMP_IF_ANY_BIT, WANTED, mask, 1),
            jump(JUMP, 0, 0, 2),
            end(false)[0],
            end(false)[1],
        ],
    };
    let kind = if rule.kind == DeviceKind::Block { BLOCK } else { CHAR };
    let tests = [Some((KIND, kind)), number(MAJOR, rule.major), number(MINOR, rule.minor)];
    let mut distance = tests.iter().flatten().count() + verdict.len();
    for (register, value) in tests.into_iter().flatten() {
        distance -= 1;
        program.push(jump(JUMP_IF_NOT_EQUAL, register, value, distance as i16));
    }
    program.extend_from_slice(verdict);
}

/// Appends the test of a device number. The comparison sign-extends its operand and never matches numbers beyond 31
/// bits; Linux has no such devices.
fn number(register: u8, value: Option<u32>) -> Option<(u8, i32)> {
    value.map(|value| (register, value as i32))
}

const fn load(register: u8, offset: i16) -> Instruction {
    Instruction { code: LOAD_WORD, registers: CONTEXT << 4 | register, offset, immediate: 0 }
}

const fn immediate(code: u8, register: u8, immediate: i32) -> Instruction {
    Instruction { code, registers: register, offset: 0, immediate }
}

const fn jump(code: u8, register: u8, immediate: i32, offset: i16) -> Instruction {
    Instruction { code, registers: register, offset, immediate }
}

const fn end(allow: bool) -> [Instruction; 2] {
    [immediate(SET, RESULT, allow as i32), immediate(EXIT, 0, 0)]
}

/// Loads an [`assemble`]d program.
///
/// # Errors
/// EPERM without CAP_BPF (CAP_SYS_ADMIN before Linux 5.8); E2BIG for thousands of rules.
pub fn load_program(program: &[Instruction]) -> Result<OwnedFd, Error> {
    Ok(bpf::load_device_program(program, c"Apache-2.0").context("bpf", "BPF_PROG_LOAD")?)
}

/// Makes `program` the only device program of a cgroup. If exactly one is attached, as usual, it is replaced
/// atomically, so that no access slips through; otherwise the new one is attached before the others are detached.
pub(crate) fn attach(
    directory: &Directory,
    program: BorrowedFd<'_>,
    is_new: bool,
) -> Result<(), Error> {
    let context = || alloc::format!("BPF_PROG_ATTACH {}", directory.path());
    let attach = |replaced| bpf::attach_device_program(directory.fd(), program, replaced);
    let old = if is_new { Vec::new() } else { attached(directory)? };
    if let [one] = old.as_slice() {
        match attach(Some(one.as_fd())) {
            // Programs cannot be replaced before Linux 5.6.
            Err(Errno::INVAL) => {}
            result => return Ok(result.context("bpf", context())?),
        }
    }
    attach(None).context("bpf", context())?;
    for program in &old {
        bpf::detach_device_program(directory.fd(), program.as_fd())
            .context("bpf", format_args!("BPF_PROG_DETACH {}", directory.path()))?;
    }
    Ok(())
}

/// Returns the programs attached to a cgroup. Those hidden by a security module stay attached: they can only deny more.
fn attached(directory: &Directory) -> Result<Vec<OwnedFd>, Error> {
    let ids = bpf::query_device_programs(directory.fd())
        .context("bpf", format_args!("BPF_PROG_QUERY {}", directory.path()))?;
    let mut programs = Vec::with_capacity(ids.len());
    for id in ids {
        match bpf::program_by_id(id) {
            Ok(program) => programs.push(program),
            Err(Errno::PERM | Errno::ACCESS | Errno::NOENT) => {}
            Err(errno) => {
                return Err(sys::Error::new("bpf", "BPF_PROG_GET_FD_BY_ID", errno).into());
            }
        }
    }
    Ok(programs)
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
