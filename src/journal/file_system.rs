//! What kind of file system a run folder is on, and whether its promises can be relied upon.
//!
//! Everything durable rests on two calls: `flock` keeps a second process out, `fsync` means that what was written stays.
//! Over a network each may mean less: a lock may hold on one machine only, and a sync may end where the server's memory
//! begins. That is no reason to refuse to run, and every reason to say so (FAULTS.md case 98).

use std::path::Path;

use crate::text::Clean;

/// What a test says that the kind is, in hexadecimal, in debug builds.
#[cfg(debug_assertions)]
pub const KIND: &str = "CRAWLDECK_TEST_FILE_SYSTEM";

/// The name of the file system with this number (`f_type` of statfs(2)), if locks and syncs on it are in doubt.
pub fn doubtful(kind: u32) -> Option<&'static str> {
    Some(match kind {
        0x0000_6969 => "NFS",
        0x0000_517B | 0xFE53_4D42 => "SMB",
        0xFF53_4D42 => "CIFS",
        0x0102_1997 => "9p (a folder of the host of a virtual machine or container)",
        0x786F_4256 => "vboxsf (a folder of the host of a virtual machine)",
        0x6573_5546 => "FUSE (sshfs, a mounted bucket and the like)",
        0x5346_414F | 0x6B41_4653 => "AFS",
        0x7375_7245 => "Coda",
        0x00C3_6400 => "Ceph",
        0x0BD0_0BD0 => "Lustre",
        0x4750_4653 => "GPFS",
        0x0116_1970 => "GFS2",
        0x7461_636F => "OCFS2",
        0xAAD7_AAEA => "PanFS",
        0x0000_564C => "NCP",
        _ => return None,
    })
}

/// What the operator of a run in `dir` has to know of where that is; `None` = nothing.
pub fn doubt(dir: &Path) -> Option<Clean> {
    let name = doubtful(kind_of(dir)?)?;
    let dir = dir.display();
    Some(Clean::new(format!(
        "run folder {dir} is on {name}: there, locks may not keep out a second crawl from another machine, and what was \
         synced may be lost if the server fails; better use a folder on a disk of this machine (-d)"
    )))
}

/// The number of the kind of file system that `dir` is on; `None` = the system does not tell.
fn kind_of(dir: &Path) -> Option<u32> {
    #[cfg(debug_assertions)]
    if let Ok(asked) = std::env::var(KIND) {
        return u32::from_str_radix(&asked, 16).ok();
    }
    // Its type and sign differ between platforms; all numbers have 32 bits.
    #[allow(clippy::unnecessary_cast, reason = "not everywhere")]
    rustix::fs::statfs(dir).ok().map(|stat| (stat.f_type as u64 & 0xFFFF_FFFF) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_98_file_systems_on_which_locks_and_syncs_are_in_doubt_have_names() {
        for (kind, name) in [
            (0x6969, "NFS"),
            (0x517B, "SMB"),
            (0xFE53_4D42, "SMB"),
            (0xFF53_4D42, "CIFS"),
            (0x0102_1997, "9p"),
            (0x786F_4256, "vboxsf"),
            (0x6573_5546, "FUSE"),
            (0x5346_414F, "AFS"),
            (0x6B41_4653, "AFS"),
            (0x00C3_6400, "Ceph"),
            (0x0BD0_0BD0, "Lustre"),
        ] {
            assert!(doubtful(kind).is_some_and(|found| found.starts_with(name)), "{kind:x} is {name}");
        }
        // ext4, XFS, Btrfs, ZFS, F2FS, tmpfs, overlayfs, bcachefs, eCryptfs, and none.
        for kind in [
            0xEF53,
            0x5846_5342,
            0x9123_683E,
            0x2FC1_2FC1,
            0xF2F5_2010,
            0x0102_1994,
            0x794C_7630,
            0xCA45_1A4E,
            0xF15F,
            0,
        ] {
            assert_eq!(doubtful(kind), None, "{kind:x}");
        }
    }

    #[test]
    fn the_kind_of_a_folder_is_told_and_that_of_nothing_is_not() {
        // What the kernel says of /proc is the same everywhere.
        assert_eq!(kind_of(Path::new("/proc/self")), Some(0x9FA0));
        assert_eq!(kind_of(Path::new("/no/such/folder")), None);
    }
}
