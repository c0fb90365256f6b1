//! Classic BPF programs, and a builder that generates a program from its end to its beginning.
//!
//! Jumps can only go forward, and conditional jumps by at most 255 instructions. When a program is generated from its
//! end, the target of every jump is already known. If a target is too far away, another return instruction or a long
//! jump is inserted.

use alloc::vec::Vec;

pub use sys::seccomp::Instruction as Insn;

/// A compiled profile: the program, and the flags for loading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The filter's instructions.
    pub filter: Vec<Insn>,
    /// The flags for seccomp(2), SECCOMP_FILTER_FLAG_*.
    pub flags: u32,
}

/// The magic number. It is changed whenever the file format or the compiler's output changes.
const MAGIC: &[u8; 8] = b"dayfbpf\x02";

impl Program {
    /// Returns whether seccomp(2) returns a listener for an agent when it loads the filter.
    pub fn has_listener(&self) -> bool {
        self.flags & sys::seccomp::NEW_LISTENER != 0
    }

    /// Converts the program to the contents of a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(12 + 8 * self.filter.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&self.flags.to_le_bytes());
        bytes.extend(self.instructions());
        bytes
    }

    /// Returns the filter's instructions in the kernel's form, `struct sock_filter`.
    pub fn instructions(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(8 * self.filter.len());
        for insn in &self.filter {
            bytes.extend_from_slice(&insn.code.to_le_bytes());
            bytes.extend_from_slice(&[insn.jt, insn.jf]);
            bytes.extend_from_slice(&insn.k.to_le_bytes());
        }
        bytes
    }

    /// Converts the output of [`Program::to_bytes`] back to a program. Returns `None` for any other bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (flags, mut rest) = rest.split_first_chunk::<4>()?;
        let mut filter = Vec::with_capacity(rest.len() / 8);
        while let Some(([c0, c1, jt, jf, k @ ..], tail)) = rest.split_first_chunk::<8>() {
            let code = u16::from_le_bytes([*c0, *c1]);
            filter.push(Insn { code, jt: *jt, jf: *jf, k: u32::from_le_bytes(*k) });
            rest = tail;
        }
        let flags = u32::from_le_bytes(*flags);
        (rest.is_empty() && !filter.is_empty()).then_some(Self { filter, flags })
    }
}

/// The instruction that loads a word of `struct seccomp_data`.
pub(crate) const LOAD: u16 = 0x20;
const RETURN: u16 = 0x06;
const JUMP: u16 = 0x05;
pub(crate) const AND: u16 = 0x54;
pub(crate) const JUMP_EQUAL: u16 = 0x15;
pub(crate) const JUMP_GREATER: u16 = 0x25;
pub(crate) const JUMP_GREATER_OR_EQUAL: u16 = 0x35;

/// A jump target that is less than this number of instructions away is still in reach after a long
/// jump or a return has been inserted.
const NEAR: u32 = 250;

/// The position of an instruction, counted from the end of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Label(usize);

/// Builds a program from its end to its beginning.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    /// The instructions, in reverse order.
    reversed: Vec<Insn>,
    /// For each value that the filter returns, the label of the last added instruction that returns this value.
    returns: Vec<(u32, Label)>,
}

impl Builder {
    pub(crate) fn push(&mut self, code: u16, k: u32) -> Label {
        self.emit(Insn { code, jt: 0, jf: 0, k })
    }

    fn emit(&mut self, insn: Insn) -> Label {
        self.reversed.push(insn);
        Label(self.reversed.len() - 1)
    }

    /// Returns the number of instructions between the next instruction to be added and `label`.
    fn distance(&self, label: Label) -> u32 {
        u32::try_from(self.reversed.len() - label.0 - 1).unwrap_or(u32::MAX)
    }

    /// Returns the label of an instruction that returns `value` and is within reach of a jump in the next instruction.
    pub(crate) fn ret(&mut self, value: u32) -> Label {
        let known = self.returns.iter().find(|(known, _)| *known == value).map(|(_, label)| *label);
        if let Some(label) = known
            && self.distance(label) < NEAR
        {
            return label;
        }
        let label = self.push(RETURN, value);
        self.returns.retain(|(known, _)| *known != value);
        self.returns.push((value, label));
        label
    }

    fn near(&mut self, label: Label) -> Label {
        if self.distance(label) < NEAR {
            return label;
        }
        self.push(JUMP, self.distance(label))
    }

    /// Adds a conditional jump to `yes` if the comparison is true, otherwise to `no`.
    pub(crate) fn branch(&mut self, code: u16, k: u32, yes: Label, no: Label) -> Label {
        if yes == no {
            return yes;
        }
        let (yes, no) = (self.near(yes), self.near(no));
        // In reach of a conditional jump.
        let [jt, jf] = [yes, no].map(|to| u8::try_from(self.distance(to)).unwrap_or(u8::MAX));
        self.emit(Insn { code, jt, jf, k })
    }

    /// Ensures that execution continues at `label` after the next instruction to be added.
    pub(crate) fn fall_to(&mut self, label: Label) {
        let distance = self.distance(label);
        if distance > 0 {
            self.push(JUMP, distance);
        }
    }

    /// Returns the instructions in the order of execution.
    pub(crate) fn finish(mut self) -> Vec<Insn> {
        self.reversed.reverse();
        self.reversed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_survive_a_file_and_nothing_else_does() {
        let insn = Insn { code: RETURN, jt: 1, jf: 2, k: 0x7fff_0000 };
        let program = Program { filter: alloc::vec![insn; 3], flags: 6 };
        let bytes = program.to_bytes();
        assert_eq!(Program::from_bytes(&bytes), Some(program));
        assert_eq!(Program::from_bytes(&bytes[..bytes.len() - 1]), None);
        assert_eq!(Program::from_bytes(b""), None);
        assert_eq!(Program::from_bytes(&bytes[..12]), None);
    }

    #[test]
    fn far_targets_are_reached_by_long_jumps() {
        let mut builder = Builder::default();
        let end = builder.ret(7);
        for _ in 0..600 {
            builder.push(LOAD, 0);
        }
        let near = builder.push(LOAD, 0);
        builder.branch(JUMP_EQUAL, 1, end, near);
        let program = builder.finish();
        let jump = program[1];
        assert_eq!(jump.code, JUMP);
        assert_eq!(program[1 + 1 + jump.k as usize], Insn { code: RETURN, jt: 0, jf: 0, k: 7 });
        assert_eq!((program[0].jt, program[0].jf), (0, 1));
    }
}
