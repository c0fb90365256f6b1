//! NUMA memory policy, set_mempolicy(2).

use rustix::io::Errno;

/// The number of 64-bit words in a node mask.
pub const WORDS: usize = 16;

/// Sets the caller's policy, which children and executed programs inherit: `mode` with its flags, and the `nodes` to
/// which it applies.
///
/// # Errors
/// Those of set_mempolicy(2): EINVAL for missing nodes or an unknown mode.
pub fn set(mode: u32, nodes: &[u64; WORDS]) -> Result<(), Errno> {
    // The kernel uses one bit less than maxnode.
    let bits = WORDS * 64 + 1;
    // SAFETY: the mask is readable for as many bits as the kernel reads.
    unsafe {
        crate::raw::call(
            crate::raw::nr::SET_MEMPOLICY,
            crate::raw::args![mode, nodes.as_ptr(), bits],
        )
    }
    .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_must_be_there() {
        const BIND: u32 = 2;
        let mut nodes = [0; WORDS];
        assert_eq!(set(BIND, &nodes), Err(Errno::INVAL));
        nodes[15] = 1 << 63;
        assert_eq!(set(BIND, &nodes), Err(Errno::INVAL));
        assert_eq!(set(0, &[0; WORDS]), Ok(()));
    }
}
