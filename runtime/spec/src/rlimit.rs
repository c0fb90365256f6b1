//! Resource limits by name, getrlimit(2).

/// Returns the number of a resource by its full name, for prlimit(2).
///
/// The numbers are the same on all architectures except alpha, mips and sparc, which dayfly does not support.
pub fn number(name: &str) -> Option<u32> {
    let resource = name.strip_prefix("RLIMIT_")?;
    NAMES.iter().zip(0..).find(|(known, _)| **known == resource).map(|(_, number)| number)
}

const NAMES: [&str; 16] = [
    "CPU",
    "FSIZE",
    "DATA",
    "STACK",
    "CORE",
    "RSS",
    "NPROC",
    "NOFILE",
    "MEMLOCK",
    "AS",
    "LOCKS",
    "SIGPENDING",
    "MSGQUEUE",
    "NICE",
    "RTPRIO",
    "RTTIME",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(number("RLIMIT_CPU"), Some(0));
        assert_eq!(number("RLIMIT_NOFILE"), Some(7));
        assert_eq!(number("RLIMIT_RTTIME"), Some(15));
        assert_eq!(number("NOFILE"), None);
        assert_eq!(number("RLIMIT_"), None);
        assert_eq!(number("rlimit_nofile"), None);
    }
}
