//! Generates one sorted table from the system call tables of the crate `syscalls`, with one row per name and one column
//! per architecture. With this table, one lookup finds the numbers on all architectures (`src/names.rs`), and no table
//! is built at run time.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Marks a system call that the architecture does not have.
const NONE: u32 = u32::MAX;
/// The bit that is set in x32 numbers (linux/arch/x86/include/uapi/asm/unistd.h).
const X32_BIT: u32 = 0x4000_0000;

/// The calls that have separate numbers on x32, from 512 on (arch/x86/entry/syscalls/syscall_64.tbl, abi x32).
const X32_OWN: [&str; 36] = [
    "rt_sigaction",
    "rt_sigreturn",
    "ioctl",
    "readv",
    "writev",
    "recvfrom",
    "sendmsg",
    "recvmsg",
    "execve",
    "ptrace",
    "rt_sigpending",
    "rt_sigtimedwait",
    "rt_sigqueueinfo",
    "sigaltstack",
    "timer_create",
    "mq_notify",
    "kexec_load",
    "waitid",
    "set_robust_list",
    "get_robust_list",
    "vmsplice",
    "move_pages",
    "preadv",
    "pwritev",
    "rt_tgsigqueueinfo",
    "recvmmsg",
    "sendmmsg",
    "process_vm_readv",
    "process_vm_writev",
    "setsockopt",
    "getsockopt",
    "io_setup",
    "io_submit",
    "execveat",
    "preadv2",
    "pwritev2",
];

/// The x86_64 calls that do not exist on x32 (the same table, abi 64).
const NOT_X32: [&str; 11] = [
    "uselib",
    "_sysctl",
    "create_module",
    "get_kernel_syms",
    "query_module",
    "nfsservctl",
    "set_thread_area",
    "get_thread_area",
    "epoll_ctl_old",
    "epoll_wait_old",
    "vserver",
];

/// The private system calls of 32-bit ARM (arch/arm/include/uapi/asm/unistd.h).
const ARM_PRIVATE: [(&str, u32); 6] = [
    ("breakpoint", 0x0f_0001),
    ("cacheflush", 0x0f_0002),
    ("usr26", 0x0f_0003),
    ("usr32", 0x0f_0004),
    ("set_tls", 0x0f_0005),
    ("get_tls", 0x0f_0006),
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let mut rows: BTreeMap<String, [u32; 6]> = BTreeMap::new();
    let mut put = |name: &str, column: usize, number: u32| {
        rows.entry(name.to_string()).or_insert([NONE; 6])[column] = number;
    };
    for call in syscalls::x86_64::Sysno::iter() {
        put(call.name(), 0, call.id().cast_unsigned());
        if !NOT_X32.contains(&call.name()) {
            let own = (512..).zip(X32_OWN).find(|(_, name)| *name == call.name());
            let number = own.map_or(call.id().cast_unsigned(), |(number, _)| number);
            put(call.name(), 2, number | X32_BIT);
        }
    }
    for call in syscalls::x86::Sysno::iter() {
        put(call.name(), 1, call.id().cast_unsigned());
    }
    for call in syscalls::aarch64::Sysno::iter() {
        put(call.name(), 3, call.id().cast_unsigned());
    }
    for call in syscalls::arm::Sysno::iter() {
        put(call.name(), 4, call.id().cast_unsigned());
    }
    for (name, number) in ARM_PRIVATE {
        put(name, 4, number);
    }
    for call in syscalls::riscv64::Sysno::iter() {
        put(call.name(), 5, call.id().cast_unsigned());
    }
    // Profiles use libseccomp's names. The tables lack some of these: arm64's table contains fstatat instead of
    // newfstatat, and break(2), which does nothing, is missing.
    put("newfstatat", 3, 79);
    put("break", 1, 17);
    // On x86, these calls are available only through socketcall(2) and ipc(2).
    for name in ["accept", "send", "recv", "semop", "semtimedop"] {
        put(name, 1, NONE);
    }
    let mut text = format!("pub(crate) static TABLE: [(&str, [u32; 6]); {}] = [\n", rows.len());
    for (name, numbers) in rows {
        let _ = writeln!(text, "    ({name:?}, {numbers:?}),");
    }
    text.push_str("];\n");
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::write(format!("{out}/table.rs"), text).expect("write the table");
}
