//! An interpreter of classic BPF.

use dayfly_seccomp::Insn;

/// The input that the kernel passes to a filter (seccomp(2), `struct seccomp_data`).
pub struct Data {
    pub nr: u32,
    pub arch: u32,
    pub args: [u64; 6],
}

impl Data {
    fn word(&self, offset: u32) -> u32 {
        match offset {
            0 => self.nr,
            4 => self.arch,
            16..64 => {
                let arg = self.args[(offset as usize - 16) / 8];
                (arg >> (8 * (offset % 8))) as u32
            }
            _ => panic!("load at {offset}"),
        }
    }
}

/// Executes a filter, as the kernel does.
pub fn interpret(filter: &[Insn], data: &Data) -> u32 {
    let (mut accumulator, mut at) = (0u32, 0usize);
    for _ in 0..8192 {
        let insn = filter[at];
        at += 1;
        let jump = |taken: bool| usize::from(if taken { insn.jt } else { insn.jf });
        match insn.code {
            0x20 => accumulator = data.word(insn.k),
            0x54 => accumulator &= insn.k,
            0x05 => at += insn.k as usize,
            0x15 => at += jump(accumulator == insn.k),
            0x25 => at += jump(accumulator > insn.k),
            0x35 => at += jump(accumulator >= insn.k),
            0x06 => return insn.k,
            code => panic!("instruction {code:#x}"),
        }
    }
    panic!("a filter that does not end")
}
