#pragma OPENCL FP_CONTRACT OFF

FLASH_FUNCTION double normal(const double x) {
    const double t = 1.0 / fma(0.2316419, fabs(x), 1.0);
    const double poly =
        t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))));
    const double tail = exp(-0.5 * x * x) * 0.3989422804014327 * poly;
    return x < 0.0 ? tail : 1.0 - tail;
}

FLASH_KERNEL black_scholes(const double rate, const double volatility, FLASH_GLOBAL const double *spot,
                           FLASH_GLOBAL const double *strike, FLASH_GLOBAL const double *years,
                           FLASH_GLOBAL double *price, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const flash_u64 i = FLASH_INDEX(0);
        const double s = FLASH_AT(spot, i), k = FLASH_AT(strike, i), t = FLASH_AT(years, i);
        const double deviation = volatility * sqrt(t);
        const double up = (log(s / k) + (rate + 0.5 * volatility * volatility) * t) / deviation;
        FLASH_AT(price, i) = s * normal(up) - k * exp(-rate * t) * normal(up - deviation);
    }
}
