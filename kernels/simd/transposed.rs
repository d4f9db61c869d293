//! Transposition of rows to columns.

use bytemuck::Pod;

/// Rows become columns, in registers that every CPU of the kind has. The compiler alone would go through the
/// stack, number by number.
#[inline(always)]
pub(crate) fn transposed<T: Pod>(rows: [[T; 4]; 4]) -> [[T; 4]; 4] {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{
            __m128i, _mm_unpackhi_epi32, _mm_unpackhi_epi64, _mm_unpacklo_epi32, _mm_unpacklo_epi64,
        };
        if size_of::<T>() == 4 {
            let [a, b, c, d]: [__m128i; 4] = bytemuck::cast(rows);
            // SAFETY: every x86-64 has these instructions.
            let columns: [__m128i; 4] = unsafe {
                let (low, high) = (_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b));
                let (low_two, high_two) = (_mm_unpacklo_epi32(c, d), _mm_unpackhi_epi32(c, d));
                [
                    _mm_unpacklo_epi64(low, low_two),
                    _mm_unpackhi_epi64(low, low_two),
                    _mm_unpacklo_epi64(high, high_two),
                    _mm_unpackhi_epi64(high, high_two),
                ]
            };
            return bytemuck::cast(columns);
        }
        if size_of::<T>() == 8 {
            let [a, a_two, b, b_two, c, c_two, d, d_two]: [__m128i; 8] = bytemuck::cast(rows);
            // SAFETY: as above.
            let columns: [__m128i; 8] = unsafe {
                [
                    _mm_unpacklo_epi64(a, b),
                    _mm_unpacklo_epi64(c, d),
                    _mm_unpackhi_epi64(a, b),
                    _mm_unpackhi_epi64(c, d),
                    _mm_unpacklo_epi64(a_two, b_two),
                    _mm_unpacklo_epi64(c_two, d_two),
                    _mm_unpackhi_epi64(a_two, b_two),
                    _mm_unpackhi_epi64(c_two, d_two),
                ]
            };
            return bytemuck::cast(columns);
        }
    }
    let mut columns = [[T::zeroed(); 4]; 4];
    for (i, row) in rows.iter().enumerate() {
        for (column, number) in columns.iter_mut().zip(row) {
            column[i] = *number;
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_columns_whatever_their_numbers_are_of() {
        fn check<T: Pod + PartialEq + std::fmt::Debug>(of: fn(u8) -> T) {
            let rows = [0, 4, 8, 12].map(|first| [0, 1, 2, 3].map(|l| of(first + l)));
            let columns = [0, 1, 2, 3].map(|first| [0, 4, 8, 12].map(|i| of(first + i)));
            assert_eq!(transposed(rows), columns);
        }
        check(u32::from);
        check(f64::from);
        check(u16::from);
    }
}
