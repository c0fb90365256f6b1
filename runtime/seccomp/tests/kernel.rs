//! Tests that the kernel loads a compiled filter and applies it.

use dayfly_seccomp::{Insn, Profile, Support, compile};
use rustix::io::Errno;
use rustix::process::{getpgid, getsid};
use rustix::thread::set_no_new_privs;

const PROFILE: &str = r#"{
    "defaultAction": "SCMP_ACT_ALLOW",
    "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"],
    "syscalls": [
        {"names": ["getsid"], "action": "SCMP_ACT_ERRNO", "errnoRet": 95},
        {"names": ["personality"], "action": "SCMP_ACT_ERRNO",
         "args": [{"index": 0, "value": 7, "op": "SCMP_CMP_EQ"}]}
    ]
}"#;

/// The value with which personality(2) changes nothing.
const QUERY: u32 = 0xffff_ffff;

/// Loads the filter and tests it, in a child process. Returns 0, or the number of the call that went wrong.
fn outcome(filter: &[Insn], flags: u32) -> Result<u32, Errno> {
    set_no_new_privs(true)?;
    sys::seccomp::load(filter, flags)?;
    let answers = [
        getsid(None).err() == Some(Errno::OPNOTSUPP),
        sys::personality::set(7) == Err(Errno::PERM),
        sys::personality::set(QUERY).is_ok(),
        getpgid(None).is_ok(),
    ];
    Ok((1..).zip(answers).find_map(|(number, is_right)| (!is_right).then_some(number)).unwrap_or(0))
}

#[test]
fn the_kernel_acts_on_the_verdicts() {
    let profile = Profile::parse(PROFILE).unwrap();
    let program = compile(&profile, &Support::default()).unwrap();
    assert_eq!(sys::errand::ask(None, || outcome(&program.filter, program.flags)), Ok(0));
}
