/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arithmetic that the workloads' kernels and their references share, against the C library and
 * against closed forms: a reference that uses the same exponential cannot see that it is wrong.
 */
#include <math.h>

#include "unit/cmocka_all.h"

#include "binomial_options_kernel.h"
#include "black_scholes_kernel.h"
#include "lavamd_kernel.h"

#define POINTS 20001

static void
assert_close(const char *what, double x, double have, double want, double tolerance)
{
	if (!(fabs(have - want) <= tolerance))
		fail_msg("%s(%.17g) is %.17g, not %.17g", what, x, have, want);
}

static void
exponentials_are_those_of_the_c_library(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < POINTS; i++) {
		float x = -87.0f + 175.0f * (float)i / (POINTS - 1);
		double y = -700.0 + 1400.0 * i / (POINTS - 1);
		double want = exp((double)x), want_f64 = exp(y);

		assert_close("exp", (double)x, (double)kernel_exp(x), want, 2e-7 * want);
		assert_close("exp", y, kernel_exp_f64(y), want_f64, 5e-16 * want_f64);
	}
	assert_true(kernel_exp(0.0f) == 1.0f && kernel_exp_f64(0.0) == 1.0);
}

static void
exponentials_end_where_they_say(void **state)
{
	(void)state;
	assert_true(kernel_exp(-87.5f) == 0.0f && kernel_exp(-1e30f) == 0.0f);
	assert_true(kernel_exp_f64(-701.0) == 0.0 && kernel_exp_f64(-1e300) == 0.0);
	assert_true(kernel_exp(1e30f) == kernel_exp(88.0f));
	assert_true(kernel_exp_f64(1e300) == kernel_exp_f64(700.0));
	assert_true(kernel_exp(-87.0f) > 0.0f && kernel_exp_f64(-700.0) > 0.0);
}

static void
logarithms_are_those_of_the_c_library(void **state)
{
	int i, k;

	(void)state;
	for (i = 0; i < POINTS; i++) {
		float m = 1.0f + (float)i / POINTS;

		for (k = -120; k <= 120; k += 24) {
			float x = ldexpf(m, k);
			double want = log((double)x);

			assert_close("log", (double)x, (double)kernel_log(x), want,
				     2e-7 * fabs(want) + 1e-12);
		}
	}
	assert_true(kernel_log(1.0f) == 0.0f);
}

static double
normal(double d)
{
	return 0.5 * erfc(-d / sqrt(2.0));
}

static double
call_price(double price, double strike, double years, double riskfree, double volatility)
{
	double width = volatility * sqrt(years);
	double d1 = (log(price / strike) + (riskfree + volatility * volatility / 2) * years) /
		    width;

	return price * normal(d1) - strike * exp(-riskfree * years) * normal(d1 - width);
}

static void
an_option_has_the_closed_forms_price(void **state)
{
	float price, strike, years, call, put;

	(void)state;
	for (price = 5.0f; price <= 30.0f; price += 2.5f) {
		for (strike = 1.0f; strike <= 100.0f; strike += 4.5f) {
			for (years = 0.25f; years <= 10.0f; years += 0.75f) {
				double s = (double)price, x = (double)strike,
				       t = (double)years;
				double want = call_price(s, x, t, 0.02, 0.30);

				black_scholes_option(price, strike, years, &call, &put);
				assert_close("call", x, (double)call, want, 1e-4);
				assert_close("put", x, (double)put,
					     want - s + x * exp(-0.02 * t), 1e-4);
			}
		}
	}
}

/* What the generator makes of an option, here in double precision, and its tree. */
static double
tree_price(double price, double strike, double years, uint32_t steps)
{
	double dt = years / steps, step = 0.10 * sqrt(dt), growth = exp(0.06 * dt);
	double p = (growth - exp(-step)) / (exp(step) - exp(-step));
	struct binomial_option o = {(float)price, (float)strike, (float)step,
				    (float)(p / growth), (float)((1 - p) / growth)};
	float value[BINOMIAL_STEPS_MAX + 1];
	uint32_t i, left;

	for (i = 0; i <= steps; i++)
		value[i] = binomial_leaf(&o, i, steps);
	for (left = steps; left > 0; left--)
		for (i = 0; i < left; i++)
			value[i] = binomial_back(o.up, o.down, value[i + 1], value[i]);
	return (double)value[0];
}

static void
a_binomial_tree_approaches_the_closed_form(void **state)
{
	double strike;

	(void)state;
	for (strike = 5; strike <= 45; strike += 2.5) {
		double want = call_price(20, strike, 3, 0.06, 0.10);

		assert_close("16 steps", strike, tree_price(20, strike, 3, 16), want, 0.1);
		assert_close("512 steps", strike, tree_price(20, strike, 3, 512), want,
			     0.005);
	}
	/* In the money whichever way: what is left of the price after the present worth of the strike. */
	assert_close("a sure gain", 1, tree_price(20, 1, 1, 1), 20 - exp(-0.06), 1e-4);
}

static void
particles_act_by_the_law(void **state)
{
	struct lavamd_vector a = {0.3, 0.1, 1.0, 0.5}, b = {0.7, 0.9, 0.2, 0.4};
	struct lavamd_vector f = {1, 2, 3, 4};
	double r2 = 0.3 + 0.7 - (0.1 * 0.9 + 1.0 * 0.2 + 0.5 * 0.4);
	double w = exp(-2 * 0.5 * 0.5 * r2);

	(void)state;
	lavamd_act(a, b, 0.6, &f);
	assert_close("v", r2, f.v, 1 + 0.6 * w, 1e-15);
	assert_close("x", r2, f.x, 2 + 0.6 * 2 * w * (0.1 - 0.9), 1e-15);
	assert_close("y", r2, f.y, 3 + 0.6 * 2 * w * (1.0 - 0.2), 1e-15);
	assert_close("z", r2, f.z, 4 + 0.6 * 2 * w * (0.5 - 0.4), 2e-15);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(exponentials_are_those_of_the_c_library),
		T(exponentials_end_where_they_say),
		T(logarithms_are_those_of_the_c_library),
		T(an_option_has_the_closed_forms_price),
		T(a_binomial_tree_approaches_the_closed_form),
		T(particles_act_by_the_law),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
