//! Architectures: their names, their audit tokens, and the multiplexed system calls of x86.

/// An architecture whose system calls a filter can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Arch {
    /// 64-bit x86.
    X86_64,
    /// 32-bit x86.
    X86,
    /// 64-bit x86 with 32-bit pointers. It has the audit token of x86_64, but bit 30 is set in its system call numbers.
    X32,
    /// 64-bit ARM.
    Aarch64,
    /// 32-bit ARM.
    Arm,
    /// 64-bit RISC-V.
    Riscv64,
}

/// The architectures of runtime-spec for which dayfly cannot be built. A kernel on which it runs never passes a call of
/// theirs to a filter, so a profile may name them without effect.
pub(crate) const FOREIGN: [&str; 17] = [
    "SCMP_ARCH_LOONGARCH64",
    "SCMP_ARCH_M68K",
    "SCMP_ARCH_MIPS",
    "SCMP_ARCH_MIPS64",
    "SCMP_ARCH_MIPS64N32",
    "SCMP_ARCH_MIPSEL",
    "SCMP_ARCH_MIPSEL64",
    "SCMP_ARCH_MIPSEL64N32",
    "SCMP_ARCH_PARISC",
    "SCMP_ARCH_PARISC64",
    "SCMP_ARCH_PPC",
    "SCMP_ARCH_PPC64",
    "SCMP_ARCH_PPC64LE",
    "SCMP_ARCH_S390",
    "SCMP_ARCH_S390X",
    "SCMP_ARCH_SH",
    "SCMP_ARCH_SHEB",
];

/// The bit that is set in the system call numbers of x32, but not in those of x86_64.
pub(crate) const X32_BIT: u32 = 0x4000_0000;

impl Arch {
    /// All architectures.
    pub const ALL: [Self; 6] =
        [Self::X86_64, Self::X86, Self::X32, Self::Aarch64, Self::Arm, Self::Riscv64];

    /// The architecture of this build, which every filter covers.
    pub const NATIVE: Self = if cfg!(target_arch = "aarch64") {
        Self::Aarch64
    } else if cfg!(target_arch = "riscv64") {
        Self::Riscv64
    } else {
        Self::X86_64
    };

    /// Returns the architecture's name in runtime-spec (config-linux.md, "Seccomp").
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

    /// Returns the architecture with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|arch| arch.name() == name)
    }

    /// Returns the architecture to which a call with this audit token and number belongs.
    pub fn of_call(token: u32, number: u32) -> Option<Self> {
        let is_x32 = token == Self::X32.token() && number & X32_BIT != 0;
        let of = |arch: &Self| arch.token() == token && is_x32 == (*arch == Self::X32);
        Self::ALL.into_iter().find(of)
    }

    /// Returns the audit token, AUDIT_ARCH_* (linux/audit.h), which the kernel passes to filters.
    pub const fn token(self) -> u32 {
        match self {
            Self::X86_64 | Self::X32 => 0xc000_003e,
            Self::X86 => 0x4000_0003,
            Self::Aarch64 => 0xc000_00b7,
            Self::Arm => 0x4000_0028,
            Self::Riscv64 => 0xc000_00f3,
        }
    }

    /// Returns whether conditions compare all 64 bits of an argument. x32 passes arguments in 64-bit registers, but
    /// libseccomp compares only the lower half, as on 32-bit architectures.
    pub(crate) const fn wide_arguments(self) -> bool {
        !matches!(self, Self::X86 | Self::X32 | Self::Arm)
    }
}

/// Returns the multiplexer on x86 through which the call `name` can be made: the number of socketcall(2) or ipc(2), and
/// the value of its first argument that selects the call.
pub fn multiplexed_on_x86(name: &str) -> Option<(u32, u64)> {
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
    fn a_call_is_of_an_architecture() {
        assert_eq!(Arch::of_call(Arch::X86_64.token(), 0), Some(Arch::X86_64));
        assert_eq!(Arch::of_call(Arch::X86_64.token(), X32_BIT), Some(Arch::X32));
        assert_eq!(Arch::of_call(Arch::Aarch64.token(), 63), Some(Arch::Aarch64));
        assert_eq!(Arch::of_call(7, 0), None);
    }
}
