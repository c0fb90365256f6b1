//! Execution domains, personality(2).

use rustix::io::Errno;

/// Sets the caller's execution domain, which children and executed programs inherit.
///
/// # Errors
/// Those of personality(2).
pub fn set(domain: u32) -> Result<(), Errno> {
    // SAFETY: no pointers.
    unsafe { crate::raw::call(crate::raw::nr::PERSONALITY, [domain]) }.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_shows_in_uname() {
        const LINUX32: u32 = 8;
        std::thread::spawn(|| {
            assert_eq!(set(LINUX32), Ok(()));
            let machine = rustix::system::uname().machine().to_bytes().to_vec();
            assert!(!machine.ends_with(b"64"), "{machine:?}");
        })
        .join()
        .unwrap();
    }
}
