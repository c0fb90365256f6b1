//! Device rules as an eBPF program of type BPF_PROG_TYPE_CGROUP_DEVICE (Linux 4.15), which is assembled here.
//!
//! The program checks the rules from the last to the first. For each requested kind of access (a bit), the first
//! matching rule that the program reaches is decisive. If a rule denies a requested bit, the program ends. Bits that a
//! rule allows are cleared; when no bit is left, the access is allowed. Unlike the v1 files, the program supports
//! exceptions to wildcard rules.

use alloc::vec::Vec;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use spec::resources::{DeviceKind, DeviceRule};
use sys::bpf::{self, Instruction};
use sys::{Context, Errno};

use super::{Access, Rule};
use crate::Error;
use crate::directory::Directory;

// Operation codes: each combines a class, a size or source, and an operation (instruction-set.rst).
const LOAD_WORD: u8 = 0x61;
const AND: u8 = 0x57;
const SHIFT_RIGHT: u8 = 0x77;
const SET: u8 = 0xb7;
const JUMP: u8 = 0x05;
const JUMP_IF_NOT_EQUAL: u8 = 0x55;
const JUMP_IF_ANY_BIT: u8 = 0x45;
const EXIT: u8 = 0x95;

// Registers: the return value, the argument (the context), and the values computed from the context.
const RESULT: u8 = 0;
const CONTEXT: u8 = 1;
const KIND: u8 = 2;
const WANTED: u8 = 3;
const MAJOR: u8 = 4;
const MINOR: u8 = 5;

// BPF_DEVCG_DEV_* in linux/bpf.h.
const BLOCK: i32 = 1;
const CHAR: i32 = 2;

/// Assembles the program for `rules`. The same rules always give the same program.
pub fn assemble(rules: &[Rule]) -> Vec<Instruction> {
    let decisive = Decisive::new(rules);
    let mut program = Vec::with_capacity(8 + 6 * decisive.rules.len());
    // The fields of struct bpf_cgroup_dev_ctx are: access and device type in one word, major number, minor number.
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

/// Returns the device program that these rules require in a new cgroup v2 directory; `None` if no program is required.
///
/// # Errors
/// [`Error::Invalid`] for an invalid rule.
pub fn of_new(rules: &[DeviceRule]) -> Result<Option<Vec<Instruction>>, Error> {
    let rules = Rule::list(rules)?;
    let needed = !rules.is_empty() && !allows_everything(&rules);
    Ok(needed.then(|| assemble(&rules)))
}

/// Returns whether `rules` allow all access, so that a new cgroup needs no program.
pub fn allows_everything(rules: &[Rule]) -> bool {
    let decisive = Decisive::new(rules);
    decisive.otherwise && decisive.rules.is_empty()
}

/// The rules that can be decisive, last one first, and the decision for an access that no rule matches.
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
        // The rules at the end of this list, which are checked last, are redundant if their verdict is the default.
        while decisive.rules.last().is_some_and(|rule| rule.allow == decisive.otherwise) {
            decisive.rules.pop();
        }
        decisive
    }
}

/// Appends the instructions for one rule. If the accessed device does not match the rule, a jump skips the verdict.
fn append(program: &mut Vec<Instruction>, rule: &Rule) {
    let mask = i32::from(rule.access.bits());
    let verdict: &[Instruction] = match (rule.allow, rule.access.is_all()) {
        // The rule decides all bits that are not decided yet.
        (allow, true) => &end(allow),
        (true, false) => &[
            immediate(AND, WANTED, i32::from(Access::ALL.bits()) & !mask),
            jump(JUMP_IF_NOT_EQUAL, WANTED, 0, 2),
            end(true)[0],
            end(true)[1],
        ],
        (false, false) => &[
            jump(JUMP_IF_ANY_BIT, WANTED, mask, 1),
            jump(JUMP, 0, 0, 2),
            end(false)[0],
            end(false)[1],
        ],
    };
    let kind = if rule.kind == DeviceKind::Block { BLOCK } else { CHAR };
    let tests = [Some((KIND, kind)), number(MAJOR, rule.major), number(MINOR, rule.minor)];
    let end = program.len() + tests.iter().flatten().count() + verdict.len();
    for (register, value) in tests.into_iter().flatten() {
        // Over the rest of this rule, which is short.
        let distance = i16::try_from(end - program.len() - 1).unwrap_or(i16::MAX);
        program.push(jump(JUMP_IF_NOT_EQUAL, register, value, distance));
    }
    program.extend_from_slice(verdict);
}

/// Returns the comparison for a device number, as a register and the required value, or `None` if every number matches.
/// The comparison sign-extends its operand, so numbers with more than 31 bits never match; Linux has no such devices.
fn number(register: u8, value: Option<u32>) -> Option<(u8, i32)> {
    value.map(|value| (register, value.cast_signed()))
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

/// Loads a program returned by [`assemble`].
///
/// # Errors
/// EPERM unless the caller has CAP_BPF and CAP_NET_ADMIN (before Linux 5.8, CAP_SYS_ADMIN); E2BIG if there are
/// thousands of rules.
pub fn load_program(program: &[Instruction]) -> Result<OwnedFd, Error> {
    Ok(bpf::load_device_program(program, c"Apache-2.0").context("bpf", "BPF_PROG_LOAD")?)
}

/// Makes `program` the only device program of a cgroup: it replaces one of those that are attached, atomically, and the
/// others are detached. At no time is an access allowed that neither the old nor the new rules allow.
pub(crate) fn attach(
    directory: &Directory,
    program: BorrowedFd<'_>,
    is_new: bool,
) -> Result<(), Error> {
    let context = || alloc::format!("BPF_PROG_ATTACH {}", directory.path());
    let attach = |replaced| bpf::attach_device_program(directory.fd(), program, replaced);
    let mut old = if is_new { Vec::new() } else { attached(directory)? };
    // EINVAL if another of them is `program` itself; for all of them before Linux 5.6, which can't replace a program.
    match old.iter().position(|one| attach(Some(one.as_fd())).is_ok()) {
        Some(replaced) => drop(old.remove(replaced)),
        None => attach(None).context("bpf", context())?,
    }
    for program in &old {
        bpf::detach_device_program(directory.fd(), program.as_fd())
            .context("bpf", format_args!("BPF_PROG_DETACH {}", directory.path()))?;
    }
    Ok(())
}

/// Returns the programs attached to a cgroup, except those that have vanished meanwhile or that the caller may not
/// open, for example because a security module hides them. A program that the caller may not open stays attached. That
/// is safe, because an access must be allowed by every attached program.
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
