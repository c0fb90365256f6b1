//! Tests that the kernel loads a compiled filter and applies it.

#![allow(unsafe_code)]

use dayfly_seccomp::{Insn, Profile, Support, compile};

const PROFILE: &str = r#"{
    "defaultAction": "SCMP_ACT_ALLOW",
    "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"],
    "syscalls": [
        {"names": ["getppid"], "action": "SCMP_ACT_ERRNO", "errnoRet": 95},
        {"names": ["personality"], "action": "SCMP_ACT_ERRNO",
         "args": [{"index": 0, "value": 7, "op": "SCMP_CMP_EQ"}]}
    ]
}"#;

#[repr(C)]
struct Fprog {
    len: u16,
    filter: *const Insn,
}

/// Makes a system call; returns its result, or the negated errno.
fn answer(number: libc::c_long, argument: u64) -> i64 {
    // SAFETY: all calls made by these tests have only integer arguments.
    let result = unsafe { libc::syscall(number, argument) };
    if result != -1 {
        result
    } else {
        -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap())
    }
}

/// Loads the filter and tests it, in a child process. Returns 0, or an exit status that identifies the failure.
fn child(filter: &[Insn], flags: u32) -> i32 {
    let program = Fprog { len: filter.len() as u16, filter: filter.as_ptr() };
    // SAFETY: prctl has only integer arguments.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return 1;
    }
    // SAFETY: `program` and the filter exist until the call returns.
    if unsafe { libc::syscall(libc::SYS_seccomp, 1, flags, &raw const program) } != 0 {
        return 2;
    }
    let current = answer(libc::SYS_personality, 0xffff_ffff);
    match () {
        () if answer(libc::SYS_getppid, 0) != -95 => 3,
        () if answer(libc::SYS_personality, 7) != -i64::from(libc::EPERM) => 4,
        () if current < 0 => 5,
        () if answer(libc::SYS_getpid, 0) <= 0 => 6,
        () => 0,
    }
}

#[test]
fn the_kernel_acts_on_the_verdicts() {
    let profile = Profile::parse(PROFILE).unwrap();
    let program = compile(&profile, &Support::default()).unwrap();
    // SAFETY: the child only makes system calls, and exits with _exit(2).
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let status = child(&program.filter, program.flags);
        // SAFETY: this ends the child, without running the parent's exit handlers.
        unsafe { libc::_exit(status) };
    }
    let mut status = 0;
    // SAFETY: `status` is valid for writing.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert!(libc::WIFEXITED(status), "status {status:#x}");
    assert_eq!(libc::WEXITSTATUS(status), 0, "see fn child");
}
