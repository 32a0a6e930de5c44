//! From registers to parameters, and from results to r0.

use super::Caller;
use crate::fault::Fault;
use crate::maps::{Errno, MapId};
use crate::memory::GuestAddr;

/// The argument registers of a call, taken one after the other.
#[derive(Debug)]
pub struct Registers<'a> {
    args: &'a [u64; 5],
    next: usize,
    /// The map of an earlier argument: what a key or value of it must be.
    pub(crate) map: Option<MapId>,
}

impl<'a> Registers<'a> {
    /// All five.
    #[inline(always)]
    pub(crate) fn new(args: &'a [u64; 5]) -> Registers<'a> {
        Registers { args, next: 0, map: None }
    }

    /// The next argument as it stands in its register.
    #[inline(always)]
    pub fn take(&mut self) -> u64 {
        debug_assert!(self.next < self.args.len(), "a function has five arguments at most");
        let value = self.args.get(self.next).copied().unwrap_or(0);
        self.next += 1;
        value
    }
}

/// What a register holds, as a C prototype says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A number.
    Number,
    /// A pointer.
    Pointer,
}

/// A parameter of a helper or kernel function: how it is made from its registers.
pub trait Arg<E>: Sized {
    /// The registers that it takes, in order.
    const SHAPE: &'static [Shape];

    /// Makes and checks it.
    ///
    /// # Errors
    /// Ends the program: the kernel's verifier would have refused the argument.
    fn take(registers: &mut Registers<'_>, caller: &mut Caller<'_, '_, E>) -> Result<Self, Fault>;
}

macro_rules! numbers {
    ($($number:ty),*) => { $(
        impl<E> Arg<E> for $number {
            const SHAPE: &'static [Shape] = &[Shape::Number];

            #[inline(always)]
            fn take(registers: &mut Registers<'_>, _: &mut Caller<'_, '_, E>) -> Result<Self, Fault> {
                Ok(registers.take() as $number)
            }
        }
    )* };
}

numbers!(u64, u32, i64, i32);

/// What a helper or kernel function returns.
pub trait Outcome {
    /// The result as r0. Numbers narrower than 64 bits are sign-extended if they are signed, which every reader of the narrow type
    /// accepts.
    ///
    /// # Errors
    /// Ends the program.
    fn r0(self) -> Result<u64, Fault>;
}

macro_rules! outcomes {
    ($($ty:ty: $value:ident => $r0:expr),* $(,)?) => { $(
        impl Outcome for $ty {
            #[inline(always)]
            fn r0(self) -> Result<u64, Fault> {
                let $value = self;
                Ok($r0)
            }
        }
    )* };
}

outcomes! {
    (): _nothing => 0,
    bool: yes => u64::from(yes),
    u32: number => u64::from(number),
    u64: number => number,
    i32: number => i64::from(number) as u64,
    GuestAddr: addr => addr.0,
    Errno: error => error.to_r0(),
}

impl<T: Outcome> Outcome for Option<T> {
    /// NULL for nothing.
    #[inline(always)]
    fn r0(self) -> Result<u64, Fault> {
        self.map_or(Ok(0), Outcome::r0)
    }
}

impl<T: Outcome> Outcome for Result<T, Errno> {
    #[inline(always)]
    fn r0(self) -> Result<u64, Fault> {
        match self {
            Ok(value) => value.r0(),
            Err(error) => error.r0(),
        }
    }
}

impl<T: Outcome> Outcome for Result<T, Fault> {
    #[inline(always)]
    fn r0(self) -> Result<u64, Fault> {
        self?.r0()
    }
}

/// A function of typed parameters `P`, which may be called through registers.
pub trait Function<E, P> {
    /// The registers of all parameters, in order.
    fn shape(&self) -> Vec<Shape>;

    /// Makes the parameters and calls it.
    ///
    /// # Errors
    /// Ends the program.
    fn invoke(&self, caller: &mut Caller<'_, '_, E>, args: &[u64; 5]) -> Result<u64, Fault>;
}

macro_rules! functions {
    ($($param:ident)*) => {
        impl<E, F, R, $($param),*> Function<E, ($($param,)*)> for F
        where
            F: Fn(&mut Caller<'_, '_, E>, $($param),*) -> R,
            R: Outcome,
            $($param: Arg<E>,)*
        {
            fn shape(&self) -> Vec<Shape> {
                let shapes: Vec<&[Shape]> = vec![$(<$param as Arg<E>>::SHAPE),*];
                shapes.concat()
            }

            #[inline(always)]
            #[allow(non_snake_case, unused_mut, unused_variables, reason = "one parameter, one name; none in the shortest")]
            fn invoke(&self, caller: &mut Caller<'_, '_, E>, args: &[u64; 5]) -> Result<u64, Fault> {
                let mut registers = Registers::new(args);
                $(let $param = <$param as Arg<E>>::take(&mut registers, caller)?;)*
                self(caller, $($param),*).r0()
            }
        }
    };
}

functions!();
functions!(A);
functions!(A B);
functions!(A B C);
functions!(A B C D);
functions!(A B C D G);
