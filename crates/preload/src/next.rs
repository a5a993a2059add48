//! The functions behind ours: those of the C library, or of another library that was loaded like this one.

use core::ffi::{CStr, c_void};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, Ordering};

/// What a function returns when it fails.
pub(crate) trait Failure {
    /// With `errno` set.
    const FAILED: Self;
}

impl Failure for i32 {
    const FAILED: Self = -1;
}

impl Failure for u32 {
    const FAILED: Self = 0;
}

impl Failure for isize {
    const FAILED: Self = -1;
}

impl Failure for i64 {
    const FAILED: Self = -1;
}

impl Failure for () {
    const FAILED: Self = ();
}

impl<T> Failure for *mut T {
    const FAILED: Self = core::ptr::null_mut();
}

/// One function, looked for once.
pub(crate) struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(core::ptr::null_mut()) }
    }

    /// Where it is; `None` if nobody has such a function.
    pub(crate) fn find(&self) -> Option<NonNull<c_void>> {
        let known = NonNull::new(self.address.load(Ordering::Relaxed));
        known.or_else(|| {
            // SAFETY: the name ends with a zero.
            let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
            self.address.store(found, Ordering::Relaxed);
            NonNull::new(found)
        })
    }
}

/// Calls the function behind ours.
macro_rules! next {
    ($name:ident($($arg:ident: $of:ty),*) -> $ret:ty) => {{
        const NAME: &core::ffi::CStr = match core::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => panic!("a name has no zero"),
        };
        static NEXT: $crate::next::Next = $crate::next::Next::new(NAME);
        match NEXT.find() {
            Some(address) => {
                // SAFETY: it is the function of this name, whose type is that of ours.
                let function = unsafe {
                    core::mem::transmute::<core::ptr::NonNull<core::ffi::c_void>, extern "C" fn($($of),*) -> $ret>(address)
                };
                function($($arg),*)
            }
            None => {
                $crate::guard::set_errno(libc::ENOSYS);
                <$ret as $crate::next::Failure>::FAILED
            }
        }
    }};
}

pub(crate) use next;
