/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kernels' names say of their parameters. The names are g++'s and nvcc's; what they stand for is beside
 * them, where it is not the one that is read.
 */
#include "preload/args/functions.h"
#include "unit/cmocka_all.h"

#include "preload/args/mangled.c" /* NOLINT(bugprone-suspicious-include) */

struct named {
	const char *name;
	int indirect;
};

static void
check(const struct named *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (pl_name_is_indirect(names[i].name) != names[i].indirect)
			fail_msg("%s: not %d", names[i].name, names[i].indirect);
}

#define CHECK_ALL(names) check(names, sizeof(names) / sizeof((names)[0]))

static void
plain_and_c_names_say_nothing(void **state)
{
	static const struct named names[] = {
		{"", 0},
		{"_", 0},
		{"_Z", 0},
		{"getrf_panel", 0},
		{"PPfPP", 0},
		{"_ZPP", 0},
		{"_Z4axpyifPKfPf", 0},
		{"_Z2f0PfPKfi", 0},
		{"_Z40noneventPPf", 0}, /* not the length that it says */
	};

	(void)state;
	CHECK_ALL(names);
}

static void
pointers_to_pointers_are_found(void **state)
{
	static const struct named names[] = {
		{"_Z3f10PP3Fooi", 1}, {"_Z2f2iPKPfi", 1}, /* float *const * */
		{"_Z3f11PKPKc", 1},   {"_Z1fPVPf", 1},
		{"_Z1fPrPf", 1},      {"_Z2f7PA4_Pf", 1}, /* float *(*)[4] */
		{"_Z2g3RA3_Pf", 0},                       /* float *(&)[3] */
		{"_Z2f9PFvPPfE", 1},  {"_Z2f8PFvPfES_", 0},
	};

	(void)state;
	CHECK_ALL(names);
}

static void
identifiers_are_no_types(void **state)
{
	static const struct named names[] = {
		{"_Z5PPfPPPf", 0}, /* PPfPP(float *) */
		{"_Z2g0P5APPlei", 0},       {"_ZN3PPf3PPi3runEPf", 0},
		{"_ZN3PPf3PPi3runEPPf", 1}, {"_Z1fPDv4_f", 0},
		{"_Z2g2PDF16_PKDF16_", 0},  {"_Z1fB3PPfPf", 0},
		{"_Z1fI7PPvalueEvPT_", 0},
	};

	(void)state;
	CHECK_ALL(names);
}

static void
abbreviations_are_followed(void **state)
{
	static const struct named names[] = {
		{"_Z2f1PfPS_", 1},        /* float *, float ** */
		{"_Z2f3P3FooPKS_S0_", 0}, /* Foo *, const Foo *, Foo * */
		{"_Z1fP3FooPKS_PS0_", 1}, /* ..., Foo ** */
		{"_Z1fP6__halfPKS_S0_", 0},
		{"_Z2f4PN2ns3BoxIfEEPKS1_", 0},
		{"_Z2g4PKfPfPN2ns3BoxI3FooE2InEPKS6_", 0},
		{"_Z2g5PN2ns3BoxI3FooE2InEPS4_", 1},
		{"_Z1fSt6vectorIPfSaIS0_EEPS0_", 1},
		{"_Z1fSt6vectorIfSaIfEEPS1_", 0},
		{"_Z1fPfPS9_", 0}, /* there is none of that number */
	};

	(void)state;
	CHECK_ALL(names);
}

static void
template_arguments_are_followed(void **state)
{
	static const struct named names[] = {
		{"_Z11getrf_panelIfEviPKPT_iPi", 1},
		{"_ZN2ns2tfIfEEvPT_PKS1_", 0},
		{"_ZN2ns2tfIPfEEvPT_PKS2_", 1}, /* T is float * */
		{"_Z2f5N2ns3BoxIPfEEPS2_", 0},
		{"_Z2f6N2ns3BoxIPPfEE", 1},
		{"_ZN2OpIPfE3runEPS0_", 1},
		{"_ZN2OpIfE4bothI3FooEEvPfPT_PKS4_", 0},
		{"_ZN2OpIfE4bothIPiEEvPfPT_PKS4_", 1},
		{"_ZN2ns4manyILi128ELb1E3FooLNS_1EE1EEEvPT1_PKNS_3BoxIS3_EEPS6_i", 0},
		{"_ZN2ns4manyILin4ELb0EPfLNS_1EE0EEEvPT1_PKNS_3BoxIS3_EEPS6_i", 1},
		/* T1_ is the function's, though another template has been named since. */
		{"_ZN2ns4lastILi1ELb1E3FooEEvPNS_3BoxIPiEEPT1_", 0},
		{"_Z3ttcIN2ns3BoxEEvPT_IfES2_IiE", 0},
		{"_Z4packIJPfP3FooPKfEEvDpT_", 0},
		{"_Z4packIJPfPS0_EEvDpT_", 1},
	};

	(void)state;
	CHECK_ALL(names);
}

static void
what_stands_in_functions_is_read(void **state)
{
	static const struct named names[] = {
		{"_Z11elementwiseI3ArrZ4use4vEUlfE_EviT0_T_", 0},
		{"_Z3lamIZ4use2vEUlPPfE0_EvT_", 1},
		{"_Z3lamIZ4use2vEUlPfiE_EvT_", 0},
		{"_ZZ4use2vENKUlPfE_clES_", 0},
		{"_ZZ4use2vENKUlPfE_clEPS_", 1},
		/* PyTorch's, with closures of nvcc. */
		{"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_"
		 "11FillFunctorIfEESt5arrayIPcLm1EE"
		 "EEviT0_T1_",
		 0},
		{"_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_14func_"
		 "wrapper_tIfZNS0_11sum_"
		 "functorIfffEclERNS_14TensorIteratorEEUlffE_EEjfLi4ELi4EEEEEvT1_",
		 0},
	};

	(void)state;
	CHECK_ALL(names);
}

/* Nothing is read behind the end, and depth has an end. */
static void
cut_and_endless_names_are_harmless(void **state)
{
	static const char whole[] = "_ZN2ns4manyILi128ELb1E3FooLNS_1EE1EEEvPT1_PKNS_"
				    "3BoxIS3_EEPS6_iSt6vectorIPfSaIS0_EE";
	char name[4096] = "_Z1f";

	(void)state;
	for (size_t n = 0; n < sizeof(whole); n++) {
		char *cut = strndup(whole, n);

		(void)pl_name_is_indirect(cut);
		free(cut);
	}
	for (size_t i = 4; i < sizeof(name) - 1; i++)
		name[i] = 'I';
	assert_int_equal(pl_name_is_indirect(name), 0);
	for (size_t i = 4; i < sizeof(name) - 1; i++)
		name[i] = 'R';
	assert_int_equal(pl_name_is_indirect(name), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_and_c_names_say_nothing),
		cmocka_unit_test(pointers_to_pointers_are_found),
		cmocka_unit_test(identifiers_are_no_types),
		cmocka_unit_test(abbreviations_are_followed),
		cmocka_unit_test(template_arguments_are_followed),
		cmocka_unit_test(what_stands_in_functions_is_read),
		cmocka_unit_test(cut_and_endless_names_are_harmless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
