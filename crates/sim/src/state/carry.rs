//! What the lane takes over of a record, and what it gives back: one table for both ways.

/// Makes the ways between a record of the general core and its row in the lane from one table, which names every member of both. A member
/// that is in no list, or in two, is a compile error. So a new one has to be placed, and what is taken over is given back.
///
/// * `given` and `derived` are members of the row alone: from the caller, or computed. The record has no use for what becomes of them.
/// * `carried` members are taken over, and given back; `renamed` ones have another name in the row.
/// * `fixed` members have one value while the lane has the record. The condition says which.
/// * `apart` members have a table or functions of their own.
/// * `untouched` members are of no concern to the lane: it does not have them, and nothing that it does changes them.
///
/// The functions made are `fits()`, whether the `fixed` members are as they have to be; `row_of()`, which cannot fail; and `give_back()`.
macro_rules! carry {
    (
        $whole:ident as $entry:ident => $row:ident, fits($($arg:ident: $arg_type:ty),*);
        given { $($given:ident: $given_type:ty),* $(,)? }
        derived { $($derived:ident: $value:expr),* $(,)? }
        $($record:ident at $($path:ident).+ {
            carried { $($carried:ident),* $(,)? }
            renamed { $($from:ident: $to:ident),* $(,)? }
            fixed { $($fixed:ident if $condition:expr),* $(,)? }
            apart { $($apart:ident),* $(,)? }
            untouched { $($untouched:ident),* $(,)? }
        })+
    ) => {
        /// True if the lane may have the record.
        fn fits($entry: &$whole, $($arg: $arg_type),*) -> bool {
            $(let $record {
                $($carried: _,)* $($from: _,)* $($fixed,)* $($apart: _,)* $($untouched: _,)*
            } = &$($path).+;)+
            true $($(&& $condition)*)+
        }

        /// The row of the record, whether it fits or not.
        #[inline]
        fn row_of($entry: &$whole, $($given: $given_type),*) -> $row {
            $(let $record {
                $($carried,)* $($from: $to,)* $($fixed: _,)* $($apart: _,)* $($untouched: _,)*
            } = &$($path).+;)+
            $row {
                $($given,)*
                $($derived: $value,)*
                $($($carried: *$carried,)* $($to: *$to,)*)+
            }
        }

        /// Gives the record what the lane has made of its row.
        #[inline]
        fn give_back(mut $entry: &mut $whole, row: &$row) {
            let $row { $($given: _,)* $($derived: _,)* $($($carried,)* $($to,)*)+ } = row;
            $({
                let place = &mut $($path).+;
                $(place.$carried = *$carried;)*
                $(place.$from = *$to;)*
            })+
        }
    };
}

pub(crate) use carry;
