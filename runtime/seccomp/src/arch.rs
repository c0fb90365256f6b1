//! Architectures: their names, audit tokens and system call numbers.

/// An architecture whose system calls a filter can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Arch {
    /// 64-bit x86.
    X86_64,
    /// 32-bit x86.
    X86,
    /// 32-bit pointers on 64-bit x86: the same audit token, numbers with bit 30 set.
    X32,
    /// 64-bit ARM.
    Aarch64,
    /// 32-bit ARM.
    Arm,
    /// 64-bit RISC-V.
    Riscv64,
}

/// The bit that x32 numbers have and x86_64 ones do not.
pub(crate) const X32_BIT: u32 = 0x4000_0000;

const NONE: u32 = u32::MAX;

include!(concat!(env!("OUT_DIR"), "/table.rs"));

impl Arch {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::X86_64, Self::X86, Self::X32, Self::Aarch64, Self::Arm, Self::Riscv64];

    /// The one this program was built for; filters always cover it.
    pub const NATIVE: Self = if cfg!(target_arch = "aarch64") {
        Self::Aarch64
    } else if cfg!(target_arch = "riscv64") {
        Self::Riscv64
    } else {
        Self::X86_64
    };

    /// The name of runtime-spec (config-linux.md, "Seccomp").
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "SCMP_ARCH_X86_64",
            Self::X86 => "SCMP_ARCH_X86",
            Self::X32 => "SCMP_ARCH_X32",
            Self::Aarch64 => "SCMP_ARCH_AARCH64",
            Self::Arm => "SCMP_ARCH_ARM",
            Self::Riscv64 => "SCMP_ARCH_RISCV64",
        }
    }

    /// The architecture of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|arch| arch.name() == name)
    }

    /// AUDIT_ARCH_* (linux/audit.h), which the kernel passes to filters.
    pub const fn token(self) -> u32 {
        match self {
            Self::X86_64 | Self::X32 => 0xc000_003e,
            Self::X86 => 0x4000_0003,
            Self::Aarch64 => 0xc000_00b7,
            Self::Arm => 0x4000_0028,
            Self::Riscv64 => 0xc000_00f3,
        }
    }

    /// Whether arguments have 64 bits. x32 passes them in 64-bit registers, but libseccomp compares
    /// the lower half only, as on the other 32-bit architectures.
    pub(crate) const fn wide_arguments(self) -> bool {
        !matches!(self, Self::X86 | Self::X32 | Self::Arm)
    }
}

/// The number of the system call `name` on `arch`, if it has one.
pub fn number(name: &str, arch: Arch) -> Option<u32> {
    numbers(name)?.on(arch)
}

/// The numbers of a system call on all architectures, or `None` for a name that is none anywhere.
pub(crate) fn numbers(name: &str) -> Option<Numbers> {
    let index = TABLE.binary_search_by(|(known, _)| (*known).cmp(name)).ok()?;
    TABLE.get(index).map(|(_, numbers)| Numbers(numbers))
}

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbers(&'static [u32; 6]);

impl Numbers {
    /// The number on `arch`.
    pub(crate) fn on(self, arch: Arch) -> Option<u32> {
        self.0.get(arch as usize).copied().filter(|number| *number != NONE)
    }
}

/// The call of x86's multiplexers that does the work of `name`: the number of socketcall(2) or ipc(2),
/// and what its first argument then is.
pub(crate) fn multiplexed_on_x86(name: &str) -> Option<(u32, u64)> {
    const SOCKETCALL: u32 = 102;
    const IPC: u32 = 117;
    const SOCKET_CALLS: [&str; 18] = [
        "socket",
        "bind",
        "connect",
        "listen",
        "accept",
        "getsockname",
        "getpeername",
        "socketpair",
        "send",
        "recv",
        "sendto",
        "recvfrom",
        "shutdown",
        "setsockopt",
        "getsockopt",
        "sendmsg",
        "recvmsg",
        "accept4",
    ];
    const IPC_CALLS: [(&str, u64); 12] = [
        ("semop", 1),
        ("semget", 2),
        ("semctl", 3),
        ("semtimedop", 4),
        ("msgsnd", 11),
        ("msgrcv", 12),
        ("msgget", 13),
        ("msgctl", 14),
        ("shmat", 21),
        ("shmdt", 22),
        ("shmget", 23),
        ("shmctl", 24),
    ];
    if let Some(index) = SOCKET_CALLS.iter().position(|call| *call == name) {
        return Some((SOCKETCALL, index as u64 + 1));
    }
    let (_, call) = IPC_CALLS.iter().find(|(call, _)| *call == name)?;
    Some((IPC, *call))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_their_numbers() {
        let read = numbers("read").unwrap();
        assert_eq!(
            Arch::ALL.map(|arch| read.on(arch)).map(Option::unwrap),
            [0, 3, X32_BIT, 63, 3, 63]
        );
        assert_eq!(numbers("execve").unwrap().on(Arch::X32), Some(X32_BIT | 520));
        assert_eq!(numbers("open").unwrap().on(Arch::Aarch64), None);
        assert_eq!(numbers("set_tls").unwrap().on(Arch::Arm), Some(0x0f_0005));
        assert!(numbers("no_such_call").is_none());
        assert!(TABLE.is_sorted_by(|a, b| a.0 < b.0));
    }
}
