void mpi_init_(int *); void mpi_finalize_(int *);
void mpi_allreduce_(void *, void *, int *, int *, int *, int *, int *);
int main(void) { int error, a[5] = {0}, b[5], n = 5, world = 0, type = 7, sum = 3;
mpi_init_(&error); mpi_allreduce_(a, b, &n, &type, &sum, &world, &error);
mpi_finalize_(&error); return error; }
